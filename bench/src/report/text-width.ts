const NARROW = /[ijlt.,:;'|!()[\]{} -]/;
const WIDE = /[A-Zmw%@]/;

/**
 * About how many pixels a line of sans-serif text takes: charts are laid out without a font, so that they have the same
 * bytes everywhere.
 */
export function textWidth(text: string, fontSize: number): number {
  let ems = 0;
  for (const character of text) ems += NARROW.test(character) ? 0.33 : WIDE.test(character) ? 0.76 : 0.56;
  return Math.ceil(ems * fontSize);
}
