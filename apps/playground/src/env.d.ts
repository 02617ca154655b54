/// <reference types="vite/client" />

/** Bytes of the files of the embedded model by their names; vite.config.ts puts it in. */
declare const __TALES_SIZES__: Readonly<Record<string, number>>;
