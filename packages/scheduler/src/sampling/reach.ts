/** Values further below the largest than this have no chance and are left out before the filters. */
export const REACH = 64;
