// The module that the builder makes of the scripts in draw/src/html.

export interface Theme { ink?: string; paper?: string; faint?: string; mark?: string; optimizer?: string;
  area?: string; curve?: string; idle?: string | null; shade?: number }

export interface Options {
  tip: HTMLElement;
  said?: HTMLElement;
  shown?: (range: string, narrow: string) => void;
  zooms?: (event: WheelEvent) => boolean;
  legend?: boolean;
  memory?: boolean;
  links?: boolean;
}

export class Charts {
  constructor(root: HTMLElement, options: Options);
  options: Options;
  tiles: HTMLCanvasElement[];
  view: [number, number];
  end: number;
  paint(theme: Theme): void;
  take(data: any): void;
  show(begin: number, end: number): void;
  fit(): void;
  zoom(factor: number, around?: number): void;
  find(microbatch: number | null): void;
  draw(): void;
}

export function key(tile: HTMLCanvasElement | null): HTMLCanvasElement;
export function legend(element: HTMLElement, data: any, idle?: string): void;
export function bytes(count: number): string;
export function text(ns: number): string;
