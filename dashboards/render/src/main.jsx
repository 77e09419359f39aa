// Draws one dashboard; window.drawn is how it went, once everything is there.
import { ThemeContext } from '@grafana/data';
import { PanelChrome, PortalContainer } from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import { atTheEnd, configured, overTime, theme, unitIsKnown } from './data.js';
import { KINDS } from './panels.jsx';

const boards = import.meta.glob('../../scorer-*.json', { eager: true, import: 'default' });
const name = new URLSearchParams(location.search).get('board');
const board = boards[`../../${name}.json`];
const CELL = 38;
const GAP = 8;

async function load(panel) {
  if (panel.type === 'row') return { panel };
  const alone = panel.targets.length === 1;
  const asked = panel.targets.map((target) => (target.format === 'table' ? atTheEnd(target, alone) : overTime(target)));
  const frames = await configured(panel, (await Promise.all(asked)).flat());
  return { panel, frames };
}

function Place({ panel, frames, width }) {
  const { x, y, w, h } = panel.gridPos;
  const unit = (width - GAP) / 24;
  const box = { position: 'absolute', left: GAP + x * unit, top: GAP + y * CELL };
  const size = { width: w * unit - GAP, height: h * CELL - GAP };
  if (panel.type === 'row') return <div style={{ ...box, ...size, fontWeight: 500, color: theme.colors.text.primary }}>⌄ {panel.title}</div>;
  const Kind = KINDS[panel.type];
  return (
    <div style={box}>
      <PanelChrome title={panel.title} description={panel.description} {...size}>
        {(inner, outer) => <Kind panel={panel} frames={frames} width={inner} height={outer} />}
      </PanelChrome>
    </div>
  );
}

const loaded = await Promise.all(board.panels.map(load));
const width = window.innerWidth;
const height = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h)) * CELL + GAP;
document.body.style.background = theme.colors.background.canvas;
document.body.style.color = theme.colors.text.primary;
document.getElementById('root').style.height = `${height}px`;
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    {loaded.map((each) => <Place key={each.panel.id} {...each} width={width} />)}
    <PortalContainer />
  </ThemeContext.Provider>,
);
const empty = loaded.filter(({ panel, frames }) => panel.type !== 'row' && !frames.some((frame) => frame.length)).map(({ panel }) => panel.title);
const units = board.panels.filter(({ type }) => type !== 'row').map(({ fieldConfig }) => fieldConfig.defaults.unit).filter((unit) => !unitIsKnown(unit));
setTimeout(() => { window.drawn = { height, empty, units, panels: loaded.length }; }, 1500);
