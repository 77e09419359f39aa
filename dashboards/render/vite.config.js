import { defineConfig } from 'vite';

export default defineConfig({
  esbuild: { jsx: 'automatic' },
  build: { outDir: 'build/site', target: 'es2022', chunkSizeWarningLimit: 20000 },
  define: { 'process.env.NODE_ENV': '"production"' },
  logLevel: 'error',
});
