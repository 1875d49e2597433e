/** What is counted. Words and labels are those of the service: `verb` and `outcome`. */

import { Counter, Gauge, Trend } from 'k6/metrics';

/** 2xx, by verb and outcome. */
export const accepted = new Counter('accepted');
/** Answers that say no and are right to: sold out, expired. They are no failures. By verb and outcome. */
export const refused = new Counter('refused');
/** 5xx, and no answer at all. By verb and outcome. */
export const failed = new Counter('failed');
/** Answers that this script should never get. By verb and outcome. */
export const unexpected = new Counter('unexpected');

/** What the caller waits: for a connection, if there is none yet, and for the answer. By verb. */
export const acceptedMs = new Trend('accepted_ms', true);
export const refusedMs = new Trend('refused_ms', true);

/** Units that were sold or are held beyond what was granted. */
export const oversold = new Counter('oversold');
/** Units by which available + held + sold differ from granted; and what the service's own audit found wrong. */
export const drift = new Counter('drift');
/** Units whose holds have not ended when all must have. */
export const overdueUnits = new Counter('overdue_units');
/** Units that the callers have bought, less those in the books: 0 in the end. It goes down, too. */
export const unaccounted = new Counter('unaccounted');
/** Units for which somebody has paid and never learned whether he has them. */
export const unknownUnits = new Counter('unknown_units');
/** 1 when the books could be read to the end: without it, all zeros above mean nothing. */
export const booksChecked = new Counter('books_checked');

/** From setup to the last answer: what "a second" refers to. The whole run is longer, it waits for holds to end. */
export const loadSeconds = new Gauge('load_seconds');

/** Answers thrown away and asked for again with the same key. */
export const repeated = new Counter('repeated');
/** Holds beyond one that a repeated key has made. */
export const duplicateHolds = new Counter('duplicate_holds');
/** Barriers that told nobody, or several, that they ended them. By how many too many or too few. */
export const misfires = new Counter('misfires');
/** Arrivals a second that the ramp had come to. */
export const offeredRate = new Gauge('offered_rate');
