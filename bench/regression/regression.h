// Compares two suite results and says if one is slower, taking the noise of both into account.
//
// The step times of a row (a strategy of a case) are compared turn by turn if the two programs took
// turns (Results.turns), and as medians otherwise. The verdict depends on the confidence
// interval of their ratio, not on its estimate:
//
//   slower    the whole interval is above 1 + tolerance
//   faster    the whole interval is below 1 - tolerance
//   same      the whole interval is below the slowdown that must be found
//   unclear   the interval is too wide: the machine was too noisy for so few turns
//
// With many rows, some interval misses the true ratio by chance. The same holds for every look at
// results that keep growing. So each interval has the confidence 1 - (1 - confidence) / (rows *
// looks) (Bonferroni). The pairs of turns of all rows together form an additional row, where a
// small slowdown of everything shows first.
//
// Two processes of one program differ by half a percent or more as long as they live, because of
// their memory layout and which of them was started first. All pairs of turns of a round share that
// difference. So with several rounds, the median of each is one sample, and the interval is
// Student's (intervals.h). The program that starts first alternates, so that an even number of
// rounds favours neither. With a single round the samples are its pairs, and the verdict is about
// its two processes only.
#ifndef DPIPE_BENCH_REGRESSION_REGRESSION_H_
#define DPIPE_BENCH_REGRESSION_REGRESSION_H_

#include <algorithm>
#include <string>
#include <vector>

#include "core/proto/results.pb.h"
#include "core/report/statistics/intervals.h"

namespace dpipe::bench {

struct RegressionOptions {
  double confidence = 0.99;  // probability that no row is called slower or faster by chance
  // For rows that took turns, and for others, between which the machine may have changed.
  double tolerance = 0.01;
  double tolerance_apart = 0.05;
  double must_find = 0.05;  // a row is "same" if its interval excludes such a slowdown
  // Maximum number of times that results are judged while turns are added until they settle.
  int looks = 1;
};

enum class Verdict {
  kSame,
  kFaster,
  kUnclear,
  kNew,      // missing in the old result, or does not count there
  kMissing,  // missing in the new result
  kSlower,
  kInvalid,  // the numbers do not count in the new result, or its case failed
};

struct RegressionRow {
  std::string case_id;   // "all rows" in the last row
  std::string strategy;  // "" for a whole case
  bool in_turns = false;
  report::Interval ratio;  // of step times, new over old; NaN if there is none
  Verdict verdict = Verdict::kSame;
  std::string reason;  // for kInvalid and kMissing
};

struct Regression {
  std::vector<RegressionRow> rows;
  std::vector<std::string> notes;  // differences between the two other than the code

  // True if some row is slower, invalid, or missing in the new result.
  bool failed() const;
  // True if some row has numbers in both results. If none has, nothing has passed.
  bool compared() const;
  // True if the comparison failed or the row of all strategies together is clear. Single rows may
  // still be unclear: a slowdown of one strategy alone may need more turns than are asked for here.
  // If there is no such row (only one row, some row not in turns, or no measured times), true if no
  // row is unclear.
  bool settled() const;
};

// True if more rounds of turns are needed than the `rounds` (>= 1) of this result. Rounds go on
// until the result is settled and both programs have been started first equally often.
bool NeedsAnotherRound(const Regression& regression, int rounds);
// Returns RegressionOptions.looks for up to `max_rounds` rounds judged that way.
inline int LooksOfRounds(int max_rounds) { return std::max(1, max_rounds / 2); }

// Compares two results. Results of different machine classes (core/report/results/origin.h) are
// compared too, with a note; the caller decides if that is wanted.
Regression CompareResults(const Results& old_results, const Results& new_results,
                          const RegressionOptions& options = {});

// Return a line per row, followed by the conclusion.
std::string RegressionText(const Regression& regression, const RegressionOptions& options);
std::string RegressionMarkdown(const Regression& regression, const RegressionOptions& options);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_REGRESSION_REGRESSION_H_
