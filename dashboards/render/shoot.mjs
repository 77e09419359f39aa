// node shoot.mjs PROMETHEUS FROM TO FOLDER: draws every dashboard in headless Chromium.
// Fails on an error of the page, on a panel without data, on a unit that Grafana does not have.
import { mkdirSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { preview } from 'vite';

const [prometheus, from, to, folder] = process.argv.slice(2);
const EMPTY = new Set(['Firing alerts', 'Cooldowns now']); // no rules here, and a quiet end
const TARGET = { target: '10.0.0.3:8000' };
const SHOTS = [
  ['scorer-overview', 'light', {}], ['scorer-overview', 'dark', {}], ['scorer-target', 'light', TARGET],
  ['scorer-picks', 'light', {}], ['scorer-daemon', 'light', {}],
];
const server = await preview({ preview: { port: 0, host: '127.0.0.1' } });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'] });
let wrong = 0;
mkdirSync(folder, { recursive: true });
for (const [board, theme, values] of SHOTS) {
  const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
  const errors = [];
  page.on('pageerror', (error) => errors.push(error.message));
  const query = new URLSearchParams({ board, theme, prometheus, from, to, values: JSON.stringify(values) });
  await page.goto(`${server.resolvedUrls.local[0]}?${query}`);
  const drawn = await page.waitForFunction(() => window.drawn, null, { timeout: 60000 })
    .then((handle) => handle.jsonValue()).catch((error) => ({ error: error.message, empty: [], units: [], height: 1000 }));
  errors.push(...drawn.empty.filter((title) => !EMPTY.has(title)).map((title) => `${title}: no data`),
    ...drawn.units.map((unit) => `unit ${unit}`), ...(drawn.error ? [drawn.error] : []));
  await page.setViewportSize({ width: 1600, height: drawn.height });
  await page.waitForTimeout(300);
  const name = `${board}${theme === 'dark' ? '-dark' : ''}.png`;
  await page.screenshot({ path: `${folder}/${name}` });
  if (name === 'scorer-overview.png') { // for the first page that people see, its upper part
    await page.screenshot({ path: `${folder}/overview.png`, clip: { x: 0, y: 0, width: 1600, height: 1294 } });
  }
  console.log(`${name}: ${drawn.panels} panels and rows${errors.length ? `\n  ${errors.join('\n  ')}` : ''}`);
  wrong += errors.length;
  await page.close();
}
await browser.close();
await server.close();
process.exit(wrong ? 1 : 0);
