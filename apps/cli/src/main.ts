import { CommanderError } from 'commander';
import { buildProgram } from './program.js';
import { reportError, reportUsage } from './report-error.js';

try {
  await buildProgram().parseAsync(process.argv);
} catch (error) {
  if (error instanceof CommanderError) reportUsage(error);
  else reportError(error);
}
