// Answers of Prometheus as Grafana's data frames.
import { FieldType, applyFieldOverrides, createTheme, standardTransformers,
  standardTransformersRegistry, transformDataFrame, FieldConfigOptionsRegistry,
  getValueFormats } from '@grafana/data';
import { lastValueFrom } from 'rxjs';

const parameters = new URLSearchParams(location.search);
export const prometheus = parameters.get('prometheus');
export const from = Number(parameters.get('from')) * 1000;
export const to = Number(parameters.get('to')) * 1000;
export const theme = createTheme({ colors: { mode: parameters.get('theme') ?? 'light' } });
const STEP = 60;
const values = { job: '.*', pool: '.*', target: '.*', instance: '.*', __rate_interval: '120s',
  __interval: `${STEP}s`, __range: `${(to - from) / 1000}s`, ...JSON.parse(parameters.get('values') ?? '{}') };

export const filled = (text) => text.replace(/\$(\w+)/g, (_, name) => values[name]);
const legend = (format, labels) => format.replace(/\{\{(\w+)\}\}/g, (_, name) => labels[name] ?? '');

async function ask(path, query) {
  const answer = await (await fetch(`${prometheus}/api/v1/${path}?${new URLSearchParams(query)}`)).json();
  if (answer.status !== 'success') throw new Error(JSON.stringify(answer));
  return answer.data.result;
}

const number = (text) => (text === 'NaN' ? null : Number(text));

export async function overTime(target) {
  const found = await ask('query_range',
    { query: filled(target.expr), start: from / 1000, end: to / 1000, step: STEP });
  const times = Array.from({ length: (to - from) / 1000 / STEP + 1 }, (_, place) => from + place * STEP * 1000);
  return found.map(({ metric, values: points }) => {
    const known = new Map(points.map(([at, value]) => [Math.round(at * 1000), number(value)]));
    const name = legend(target.legendFormat, metric) || 'Value';
    return {
      refId: target.refId, name, length: times.length, meta: { type: 'timeseries-multi' },
      fields: [
        { name: 'Time', type: FieldType.time, config: {}, values: times },
        { name: 'Value', type: FieldType.number, config: { displayNameFromDS: name }, labels: metric,
          values: times.map((at) => known.get(at) ?? null) },
      ],
    };
  });
}

export async function atTheEnd(target, alone) {
  const found = await ask('query', { query: filled(target.expr), time: to / 1000 });
  const labels = [...new Set(found.flatMap(({ metric }) => Object.keys(metric)))].sort();
  const value = alone ? 'Value' : `Value #${target.refId}`;
  return {
    refId: target.refId, length: found.length,
    fields: [
      { name: 'Time', type: FieldType.time, config: {}, values: found.map(() => to) },
      ...labels.map((name) => ({ name, type: FieldType.string, config: {}, values: found.map(({ metric }) => metric[name] ?? '') })),
      { name: value, type: FieldType.number, config: {}, values: found.map((each) => number(each.value[1])) },
    ],
  };
}

const same = (value) => value;
const item = (id, path, isCustom) => ({ id, path, isCustom, name: id, process: same, shouldApply: () => true,
  getItemsCount: () => 1, override: () => null, editor: () => null });
const STANDARD = ['unit', 'min', 'max', 'decimals', 'displayName', 'noValue', 'thresholds', 'mappings', 'color', 'links'];
const CUSTOM = ['drawStyle', 'lineWidth', 'fillOpacity', 'showPoints', 'spanNulls', 'stacking', 'axisSoftMin',
  'lineStyle', 'hideFrom', 'align', 'cellOptions', 'scaleDistribution'];
const registry = new FieldConfigOptionsRegistry(() => [
  ...STANDARD.map((id) => item(id, id, false)), ...CUSTOM.map((id) => item(`custom.${id}`, id, true)),
]);
standardTransformersRegistry.setInit(() => Object.values(standardTransformers)
  .filter((each, place, all) => all.findIndex(({ id }) => id === each.id) === place)
  .map((each) => ({ id: each.id, name: each.name, transformation: async () => each, editor: () => null })));

export async function configured(panel, frames) {
  const steps = await Promise.all((panel.transformations ?? []).map((each) => each));
  const data = steps.length ? await lastValueFrom(transformDataFrame(steps, frames)) : frames;
  return applyFieldOverrides({ data, fieldConfig: panel.fieldConfig, fieldConfigRegistry: registry, theme,
    replaceVariables: same, timeZone: 'utc' });
}

const units = new Set(getValueFormats().flatMap((group) => group.submenu.map(({ value }) => value)));
export const unitIsKnown = (unit) => units.has(unit);
