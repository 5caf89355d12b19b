// Whether one suite result is slower than another, given how noisy both are.
//
// The step times of a row (a strategy of a case) are compared turn by turn where the two programs
// took turns (SuiteResults.turns), as medians where they did not. What decides is the interval of
// their ratio, not its estimate:
//   slower    all of it is above 1 + tolerance
//   faster    all of it is below 1 - tolerance
//   same      all of it is within the slowdown that must be found
//   unclear   it is too wide to say: the machine was too noisy for so few turns
// With many rows some interval misses its truth by chance, and with every look at results that grow
// again, so each has the confidence 1 - (1 - confidence) / (rows * looks) (Bonferroni). The pairs
// of turns of all rows together are a row of their own: what makes everything a little slower shows
// there first.
//   Two processes of one program differ by half a percent and more for as long as they live (where
// their memory lies, which of them was started first), and all pairs of turns of a round share
// that. So of several rounds the median of each is one sample, and the interval is Student's
// (mean_interval.h); who is started first alternates, so that an even number of rounds favours
// neither. Of a single round the pairs are all there is: what is said then is said of its two
// processes.
#ifndef DPIPE_BENCH_REGRESSION_H_
#define DPIPE_BENCH_REGRESSION_H_

#include <algorithm>
#include <string>
#include <vector>

#include "bench/statistics/bootstrap.h"
#include "bench/suite_results.h"

namespace dpipe::bench {

struct RegressionOptions {
  double confidence = 0.99;  // that no row is called slower, or faster, by chance
  // Of rows that took turns, and of others, between which the machine may have changed.
  double tolerance = 0.01;
  double tolerance_apart = 0.05;
  double must_find = 0.05;  // a row whose interval holds no such slowdown is "same"
  // How often, at most, results are judged while turns are added to them until they settle.
  int looks = 1;
};

enum class Verdict {
  kSame,
  kFaster,
  kUnclear,
  kNew,      // the old result has no such row, or it does not count there
  kMissing,  // the new one has not
  kSlower,
  kInvalid,  // the new one's numbers do not count, or its case failed
};

struct RegressionRow {
  std::string case_id;   // "all rows" of the last
  std::string strategy;  // "" of a whole case
  bool in_turns = false;
  Interval ratio;  // of step times, new over old; NaN where there is none
  Verdict verdict = Verdict::kSame;
  std::string reason;  // of kInvalid and kMissing
};

struct Regression {
  std::vector<RegressionRow> rows;
  std::vector<std::string> notes;  // what differs between the two but the code

  // Some row is slower or invalid, or missing where the old result has it.
  bool failed() const;
  // Some row has numbers in both results. Without any, nothing is known, and nothing has passed.
  bool compared() const;
  // It failed, or the row of all strategies together is clear. Single rows may be unclear then: a
  // slowdown of one strategy alone may take more turns than this asks for. Where there is no such
  // row (a single row, or some row not in turns, or no clock measured any), none is unclear.
  bool settled() const;
};

// Whether more rounds of turns are needed than the `rounds` (>= 1) of this result: until it is
// settled, and as many with the one program started first as with the other.
bool NeedsAnotherRound(const Regression& regression, int rounds);
// RegressionOptions.looks where up to so many rounds are judged that way.
inline int LooksOfRounds(int most_rounds) { return std::max(1, most_rounds / 2); }

// Results of different machine classes (code_identity.h) are compared too, with a note: whether
// that is wanted is the caller's to say.
Regression CompareResults(const SuiteResults& old_results, const SuiteResults& new_results,
                          const RegressionOptions& options = {});

// A line a row, then one that says how it ends.
std::string RegressionText(const Regression& regression, const RegressionOptions& options);
std::string RegressionMarkdown(const Regression& regression, const RegressionOptions& options);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_REGRESSION_H_
