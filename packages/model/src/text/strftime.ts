const MONTHS = 'January February March April May June July August September October November December'.split(' ');
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

/**
 * `strftime` of Python for chat templates, in UTC and English whatever the machine: a prompt must not depend on where
 * it is rendered. Throws for a directive it does not have.
 */
export function strftime(date: Date, format: string): string {
  return format.replace(/%-?./g, (directive) => {
    const value = field(date, directive.at(-1)!);
    if (value === undefined) throw new Error(`strftime_now has no directive ${directive}`);
    return directive.startsWith('%-') ? value.replace(/^0+(?=.)/, '') : value;
  });
}

function field(date: Date, letter: string): string | undefined {
  const two = (value: number): string => String(value).padStart(2, '0');
  const month = MONTHS[date.getUTCMonth()]!;
  const day = DAYS[date.getUTCDay()]!;
  const hours = date.getUTCHours();
  switch (letter) {
    case 'Y':
      return String(date.getUTCFullYear());
    case 'y':
      return two(date.getUTCFullYear() % 100);
    case 'm':
      return two(date.getUTCMonth() + 1);
    case 'B':
      return month;
    case 'b':
      return month.slice(0, 3);
    case 'd':
      return two(date.getUTCDate());
    case 'A':
      return day;
    case 'a':
      return day.slice(0, 3);
    case 'H':
      return two(hours);
    case 'I':
      return two(hours % 12 || 12);
    case 'p':
      return hours < 12 ? 'AM' : 'PM';
    case 'M':
      return two(date.getUTCMinutes());
    case 'S':
      return two(date.getUTCSeconds());
    case '%':
      return '%';
    default:
      return undefined;
  }
}
