// The module that the builder makes of the scripts in draw/src/html.

export interface Theme { ink?: string; paper?: string; faint?: string; mark?: string; optimizer?: string;
  area?: string; curve?: string; idle?: string | null; shade?: number; hatch?: string; passes?: string[][]; letters?: string[] }

/** One chart of those on the time axis. */
export interface Chart {
  canvas: HTMLCanvasElement;
  /** The canvas, with what stands beside it. */
  element: HTMLElement;
  rows: { name: string; spans: number[][] }[];
  top: number;
  height: number;
  left: number;
  wide: number;
  width(): number;
  tall(): number;
  step(key: string): boolean;
}

export interface Options {
  tip: HTMLElement;
  said?: HTMLElement;
  shown?: (range: string, narrow: string) => void;
  zooms?: (event: WheelEvent) => boolean;
  legend?: boolean;
  memory?: boolean;
  links?: boolean;
  beside?: (element: HTMLElement, chart: Chart, at: number) => void;
  selected?: (chart: Chart, lines: string[]) => void;
  keys?: () => void;
}

export class Charts {
  constructor(root: HTMLElement, options: Options);
  options: Options;
  charts: Chart[];
  tiles: HTMLCanvasElement[];
  fills: (string | CanvasPattern)[][];
  theme: Theme;
  idle: string;
  view: [number, number];
  end: number;
  paint(theme: Theme): void;
  take(data: any): void;
  show(begin: number, end: number): void;
  fit(): void;
  zoom(factor: number, around?: number): void;
  key(key: string): boolean;
  find(microbatch: number | null): void;
  draw(): void;
  drawAll(): void;
}

export function key(tile: HTMLCanvasElement | null): HTMLCanvasElement;
export function legend(element: HTMLElement, data: any, theme?: Theme): void;
export function bytes(count: number): string;
export function text(ns: number): string;
