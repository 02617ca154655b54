/** Digits that a figure of a chart or a page is told with, where nobody has rounded it. */
const SIGNIFICANT = 3;
const THOUSANDS = new Intl.NumberFormat('en-US', { maximumFractionDigits: 8 });

/** For labels: three significant digits, and all of those in front of the point. */
export function shortFigure(value: number): string {
  if (value === 0) return '0';
  const decimals = Math.max(0, SIGNIFICANT - 1 - Math.floor(Math.log10(Math.abs(value))));
  return fullFigure(Number(value.toFixed(Math.min(decimals, 12))));
}

/** A figure as it was rounded by whoever made it. */
export function fullFigure(value: number): string {
  return Math.abs(value) >= 1e-6 || value === 0 ? THOUSANDS.format(value) : String(value);
}
