// One component for each kind of panel. State timeline and heatmap are not among Grafana's
// packages and are drawn here with its colours and formats; all others are Grafana's own.
import { getFieldDisplayName, reduceField } from '@grafana/data';
import { BarGauge, BigValue, Table, TimeSeries } from '@grafana/ui';
import { from, theme, to } from './data.js';

const last = (field) => reduceField({ field, reducers: ['lastNotNull'] }).lastNotNull;
const value = (frame) => frame.fields.find((field) => field.type === 'number');
const Nothing = ({ panel }) => <div style={{ padding: 16, textAlign: 'center' }}>{panel.fieldConfig.defaults.noValue ?? 'No data'}</div>;
const range = { from: { valueOf: () => from }, to: { valueOf: () => to }, raw: { from: '', to: '' } };

function Stat({ panel, frames, width, height }) {
  if (!frames.length) return <Nothing panel={panel} />;
  const { colorMode, graphMode, justifyMode, textMode, text } = panel.options;
  const field = value(frames[0]);
  const sparkline = graphMode === 'area' ? { y: field, x: frames[0].fields[0] } : undefined;
  return <BigValue {...{ width, height, theme, colorMode, graphMode, justifyMode, textMode, text, sparkline }}
    value={{ ...field.display(last(field)), title: '' }} />;
}

function Lines({ panel, frames, width, height }) {
  if (!frames.length) return <Nothing panel={panel} />;
  return <TimeSeries {...{ frames, width, height }} structureRev={1} timeRange={range} timeZone="utc"
    legend={panel.options.legend} replaceVariables={(text) => text} options={{}} />;
}

function Rows({ panel, frames, width, height }) {
  const [frame] = frames;
  if (!frame?.length) return <Nothing panel={panel} />;
  return <Table width={width - 16} height={height} data={frame} />;
}

function Bars({ panel, frames, width }) {
  if (!frames.length) return <Nothing panel={panel} />;
  const title = frames.map((frame) => getFieldDisplayName(value(frame), frame, frames))
    .reduce((one, other) => (other.length > one.length ? other : one));
  const most = Math.max(...frames.map((frame) => last(value(frame))));
  return frames.map((frame) => {
    const field = value(frame);
    field.config.max ??= most;
    const shown = field.display(last(field));
    return <BarGauge key={frame.name} {...{ width, theme, field: field.config }} height={26} orientation="horizontal"
      displayMode={panel.options.displayMode} text={panel.options.text} value={{ ...shown, title: getFieldDisplayName(field, frame, frames) }}
      display={field.display} alignmentFactors={{ title, text: '100.0%' }} itemSpacing={4} />;
  });
}

const AXIS = 22;
const SIDE = 190;

function Timeline({ frames, width, height }) {
  const high = (height - AXIS) / Math.max(1, frames.length);
  return (
    <svg width={width} height={height} fontSize={11} fill={theme.colors.text.primary}>
      {frames.map((frame, row) => {
        const field = value(frame);
        const runs = [];
        field.values.forEach((code, place) => {
          if (code === null) return;
          if (runs.at(-1)?.code === code && runs.at(-1).end === place) runs.at(-1).end = place + 1;
          else runs.push({ code, start: place, end: place + 1 });
        });
        const unit = (width - SIDE) / field.values.length;
        return (
          <g key={row} transform={`translate(0 ${row * high})`}>
            <text x={SIDE - 8} y={high / 2 + 4} textAnchor="end">{getFieldDisplayName(field, frame, frames)}</text>
            {runs.map((run) => <rect key={run.start} x={SIDE + run.start * unit} width={(run.end - run.start) * unit}
              y={high * 0.08} height={high * 0.84} fill={field.display(run.code).color} />)}
          </g>
        );
      })}
      <Hours width={width} y={height - 6} />
    </svg>
  );
}

function Hours({ width, y }) {
  const marks = Array.from({ length: 9 }, (_, place) => from + (place * (to - from)) / 8);
  return marks.map((at, place) => <text key={at} y={y} x={SIDE + (place * (width - SIDE)) / 8}
    textAnchor={place === 8 ? 'end' : place ? 'middle' : 'start'}>{new Date(at).toISOString().slice(11, 16)}</text>);
}

function Heatmap({ panel, frames, width, height }) {
  if (!frames.length) return <Nothing panel={panel} />;
  const rows = frames.map((frame) => ({ le: Number(frame.name.replace('+Inf', 'Infinity')), values: value(frame).values,
    show: value(frame).display })).sort((one, other) => one.le - other.le);
  const cells = rows.map((row, place) => row.values.map((each, at) => (each ?? 0) - (place ? rows[place - 1].values[at] ?? 0 : 0)));
  const most = Math.max(...cells.flat());
  const high = (height - AXIS) / rows.length;
  const unit = (width - SIDE) / cells[0].length;
  return (
    <svg width={width} height={height} fontSize={11} fill={theme.colors.text.primary}>
      {cells.map((line, row) => (
        <g key={row} transform={`translate(0 ${(rows.length - 1 - row) * high})`}>
          <text x={SIDE - 8} y={high / 2 + 4} textAnchor="end">{Number.isFinite(rows[row].le) ? words(rows[row].show(rows[row].le)) : '+Inf'}</text>
          {line.map((count, at) => count > 0 && <rect key={at} x={SIDE + at * unit} width={unit - 0.5} height={high - 1}
            fill={theme.visualization.getColorByName('dark-orange')} opacity={Math.sqrt(count / most)} />)}
        </g>
      ))}
      <Hours width={width} y={height - 6} />
    </svg>
  );
}

const words = ({ prefix = '', text, suffix = '' }) => prefix + text + suffix;

export const KINDS = { stat: Stat, timeseries: Lines, table: Rows, bargauge: Bars, 'state-timeline': Timeline, heatmap: Heatmap };
