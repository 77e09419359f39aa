// Checks every panel by the types of @grafana/schema: a property that Grafana does not know,
// or a value that it does not take, is an error of the compiler.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';

const SCHEMA = '@grafana/schema/dist/esm/raw/composable';
// Panel: module, file, and whether it has field options of its own.
const KINDS = {
  stat: ['stat', 'StatPanelCfg', false],
  timeseries: ['timeseries', 'TimeSeriesPanelCfg', true],
  table: ['table', 'TablePanelCfg', true],
  'state-timeline': ['statetimeline', 'StateTimelinePanelCfg', true],
  heatmap: ['heatmap', 'HeatmapPanelCfg', true],
  bargauge: ['bargauge', 'BarGaugePanelCfg', false],
};

// Enums may be written as their strings, and every property may be left to its default.
const lines = [`
type DP<T> = T extends string ? T | \`\${T}\` : T extends number | boolean | null | undefined ? T
  : T extends (infer U)[] ? DP<U>[] : T extends object ? { [K in keyof T]?: DP<T[K]> } : T;
import type { Dashboard, FieldConfig as Defaults } from '@grafana/schema';
`];
for (const [kind, [folder, file, custom]] of Object.entries(KINDS)) {
  const name = kind.replace('-', '_');
  lines.push(`import type { Options as ${name}_options${custom ? `, FieldConfig as ${name}_custom` : ''} }`
    + ` from '${SCHEMA}/${folder}/panelcfg/x/${file}_types.gen';`);
}
const dashboards = readdirSync('..').filter((name) => /^scorer-\w+\.json$/.test(name)).sort();
let panels = 0;
for (const file of dashboards) {
  const board = JSON.parse(readFileSync(`../${file}`, 'utf8'));
  for (const panel of board.panels.filter((each) => each.type !== 'row')) {
    const name = panel.type.replace('-', '_');
    if (!KINDS[panel.type]) throw new Error(`${file}: no types for a panel of type ${panel.type}`);
    const at = `${board.uid.replace('-', '_')}_${panel.id}`;
    const { custom, ...defaults } = panel.fieldConfig.defaults;
    lines.push(`// ${file}: ${panel.title}`);
    lines.push(`export const ${at}_options: DP<${name}_options> = ${JSON.stringify(panel.options)};`);
    lines.push(`export const ${at}_defaults: DP<Omit<Defaults, 'mappings'>> = ${JSON.stringify({ ...defaults, mappings: undefined })};`);
    if (custom && !KINDS[panel.type][2]) throw new Error(`${file}: ${panel.title} has no custom options`);
    if (custom) lines.push(`export const ${at}_custom: DP<${name}_custom> = ${JSON.stringify(custom)};`);
    panels += 1;
  }
  const { panels: _, templating, annotations, ...rest } = board;
  lines.push(`export const ${board.uid.replace('-', '_')}: DP<Dashboard> = ${JSON.stringify(rest)};`);
  for (const [number, variable] of templating.list.entries()) {
    const { definition, filters, ...known } = variable;  // of plugins, not of the dashboard's schema
    lines.push(`export const ${board.uid.replace('-', '_')}_v${number}: DP<NonNullable<NonNullable<Dashboard['templating']>['list']>[number]> = ${JSON.stringify(known)};`);
  }
}
mkdirSync('build', { recursive: true });
writeFileSync('build/types.gen.ts', lines.join('\n'));
const done = spawnSync('node_modules/.bin/tsc', ['--noEmit', '--strict', '--skipLibCheck',
  '--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2022', 'build/types.gen.ts'],
{ encoding: 'utf8' });
process.stdout.write(done.stdout + done.stderr);
if (done.status === 0) console.log(`types: ${panels} panels of ${dashboards.length} dashboards are as Grafana takes them`);
process.exit(done.status ?? 1);
