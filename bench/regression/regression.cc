#include "bench/regression/regression.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/report/results/case_analysis.h"
#include "core/report/results/origin.h"
#include "core/report/results/results.h"
#include "core/report/statistics/intervals.h"
#include "core/report/statistics/stats.h"
#include "core/report/table.h"

namespace dpipe::bench {
namespace {

using report::BootstrapOptions;
using report::Interval;

constexpr Interval kUnknown = {NAN, NAN, NAN};
constexpr char kAllRows[] = "all rows";

// The two results of one row as step times, without warm-up.
struct RowSamples {
  std::vector<double> old_times, new_times;
};

std::vector<double> Times(const StrategyResult& result, int warm_up) {
  std::vector<double> times =
      report::WithoutFirst(report::Numbers(result.images_per_second()), warm_up);
  for (double& time : times) time = 1 / time;
  return times;
}

// Logarithms of new over old, by round, then by pair of turns.
using LogRatios = std::vector<std::vector<double>>;

LogRatios LogRatiosOf(const RowSamples& samples, int rounds) {
  LogRatios logs(rounds);
  const size_t turns = samples.old_times.size() / rounds;
  for (size_t i = 0; i < samples.old_times.size(); ++i) {
    logs[i / turns].push_back(std::log(samples.new_times[i] / samples.old_times[i]));
  }
  return logs;
}

// With several rounds each is one sample; with one round each pair is (regression.h). A single pair
// is of steps that were not measured by a clock, and is exact.
Interval IntervalOfLogs(const LogRatios& logs, double confidence) {
  if (logs.size() == 1) {
    if (logs[0].size() == 1) return {logs[0][0], logs[0][0], logs[0][0]};
    return report::OrderInterval(logs[0], confidence);
  }
  std::vector<double> medians;
  for (const std::vector<double>& of_round : logs) medians.push_back(report::Median(of_round));
  return report::MeanInterval(medians, confidence);
}

Interval RatioOfPairs(const LogRatios& logs, double confidence) {
  const Interval interval = IntervalOfLogs(logs, confidence);
  return {std::exp(interval.estimate), std::exp(interval.low), std::exp(interval.high)};
}

// Returns a number of resamples that leaves about twenty beyond the interval.
int ResamplesFor(double confidence) {
  return std::max(5000, static_cast<int>(std::ceil(20 / (1 - confidence))));
}

class Comparer {
 public:
  Comparer(const Results& old_results, const Results& new_results, const RegressionOptions& options)
      : old_(old_results), new_(new_results), options_(options) {}

  Regression Run() {
    Note();
    for (const CaseResult& one : old_.cases()) CompareCase(one, report::FindCase(new_, one.id()));
    for (const CaseResult& one : new_.cases()) {
      if (report::FindCase(old_, one.id()) == nullptr) AddNew(one);
    }
    Judge();
    return std::move(regression_);
  }

 private:
  void Note() {
    if (old_.cases().empty() || new_.cases().empty()) return;
    const CaseResult& a = old_.cases(0);
    const CaseResult& b = new_.cases(0);
    const std::string machine = report::MachineDifference(a, b);
    if (!machine.empty()) regression_.notes.push_back("The machines differ: " + machine + ".");
    for (const Results* results : {&old_, &new_}) {
      for (const std::string& mixed : report::MixedOrigins(*results)) {
        regression_.notes.push_back("Mixed runs: " + mixed + ".");
      }
    }
    if (InTurns() && old_.rounds() == 1) {
      regression_.notes.push_back(
          "Single round: the verdict includes differences between two processes of one program.");
    }
    if (!InTurns()) {
      regression_.notes.push_back(
          "Not measured in turns: the verdict includes whatever else changed between the results.");
    }
  }

  bool InTurns() const {
    return !old_.turns().empty() && old_.turns() == new_.turns() && old_.rounds() == new_.rounds();
  }

  void CompareCase(const CaseResult& old_case, const CaseResult* new_case) {
    if (old_case.state() != CaseResult::MEASURED) {
      if (new_case != nullptr) AddNew(*new_case);
      return;
    }
    const bool same_work = new_case != nullptr && new_case->definition() == old_case.definition();
    if (new_case != nullptr && !same_work) {
      regression_.notes.push_back(
          absl::StrCat(old_case.id(), " has different definitions in the two results."));
    }
    const int warm_up = InTurns() ? 0 : WarmUp(old_case, new_case);
    for (const StrategyResult& old_result : old_case.strategies()) {
      if (!old_result.skipped().empty()) continue;
      const StrategyResult* new_result =
          new_case == nullptr ? nullptr
                              : report::FindStrategyResult(*new_case, old_result.strategy());
      RegressionRow row = Row(old_case.id(), old_result.strategy());
      if (new_case != nullptr && new_case->state() == CaseResult::FAILED) {
        row.verdict = Verdict::kInvalid;
        row.reason = new_case->reason();
      } else if (new_result == nullptr || !new_result->skipped().empty()) {
        row.verdict = Verdict::kMissing;
        row.reason = new_result != nullptr ? new_result->skipped()
                     : new_case != nullptr ? new_case->reason()
                                           : "no such case";
      } else if (!report::Counts(*new_result)) {
        row.verdict = Verdict::kInvalid;
        row.reason = new_result->invalid();
      } else if (!report::Counts(old_result)) {
        row.verdict = Verdict::kNew;
      } else {
        samples_[regression_.rows.size()] = {Times(old_result, warm_up),
                                             Times(*new_result, warm_up)};
      }
      regression_.rows.push_back(row);
    }
    if (new_case != nullptr) AddNewStrategies(old_case, *new_case);
  }

  // Adds strategies that the old result of the case lacks or skipped.
  void AddNewStrategies(const CaseResult& old_results, const CaseResult& new_case) {
    for (const StrategyResult& result : new_case.strategies()) {
      if (!result.skipped().empty()) continue;
      const StrategyResult* before = report::FindStrategyResult(old_results, result.strategy());
      if (before != nullptr && before->skipped().empty()) continue;
      RegressionRow row = Row(new_case.id(), result.strategy());
      row.verdict = report::Counts(result) ? Verdict::kNew : Verdict::kInvalid;
      row.reason = result.invalid();
      regression_.rows.push_back(row);
    }
  }

  // Used only for results not in turns: the two turns of a pair are equally warm.
  static int WarmUp(const CaseResult& old_case, const CaseResult* new_case) {
    const int old_turns = report::AnalyseCase(old_case).warm_up_turns;
    if (new_case == nullptr) return old_turns;
    return std::max(old_turns, report::AnalyseCase(*new_case).warm_up_turns);
  }

  // Adds a case that the old result has not measured.
  void AddNew(const CaseResult& one) {
    if (one.state() != CaseResult::FAILED) return AddNewStrategies(CaseResult(), one);
    RegressionRow row = Row(one.id(), "");
    row.verdict = Verdict::kInvalid;
    row.reason = one.reason();
    regression_.rows.push_back(row);
  }

  static RegressionRow Row(const std::string& case_id, const std::string& strategy) {
    RegressionRow row;
    row.case_id = case_id;
    row.strategy = strategy;
    row.ratio = kUnknown;
    return row;
  }

  // Sets ratio and verdict of all rows with samples, and adds the row of all.
  void Judge() {
    if (samples_.empty()) return;
    const auto num_intervals = static_cast<double>((samples_.size() + 1) * options_.looks);
    BootstrapOptions bootstrap;
    bootstrap.confidence = 1 - (1 - options_.confidence) / num_intervals;
    bootstrap.resamples = ResamplesFor(bootstrap.confidence);
    for (auto& [index, samples] : samples_) {
      RegressionRow& row = regression_.rows[index];
      row.in_turns = InTurns() && samples.old_times.size() == samples.new_times.size() &&
                     samples.old_times.size() % old_.rounds() == 0;
      row.ratio = row.in_turns
                      ? RatioOfPairs(LogRatiosOf(samples, old_.rounds()), bootstrap.confidence)
                      : report::RatioInterval(samples.new_times, samples.old_times, bootstrap);
      row.verdict = VerdictOf(row);
    }
    if (samples_.size() < 2) return;
    RegressionRow all = Row(kAllRows, "");
    const LogRatios pairs = AllPairs();
    if (pairs.empty()) return;
    all.in_turns = true;
    all.ratio = RatioOfPairs(pairs, bootstrap.confidence);
    all.verdict = VerdictOf(all);
    regression_.rows.push_back(all);
  }

  // Returns the pairs of turns of every row; none if some row was not measured in turns.
  LogRatios AllPairs() const {
    LogRatios pairs;
    for (const auto& [index, samples] : samples_) {
      if (!regression_.rows[index].in_turns) return {};
      // One sample per round is a step that was not measured by a clock: not a turn.
      if (samples.old_times.size() == static_cast<size_t>(old_.rounds())) continue;
      const LogRatios of_row = LogRatiosOf(samples, old_.rounds());
      pairs.resize(of_row.size());
      for (size_t round = 0; round < of_row.size(); ++round) {
        pairs[round].insert(pairs[round].end(), of_row[round].begin(), of_row[round].end());
      }
    }
    return pairs;
  }

  Verdict VerdictOf(const RegressionRow& row) const {
    const double tolerance = row.in_turns ? options_.tolerance : options_.tolerance_apart;
    if (row.ratio.low > 1 + tolerance) return Verdict::kSlower;
    if (row.ratio.high < 1 - tolerance) return Verdict::kFaster;
    return row.ratio.high < 1 + std::max(options_.must_find, tolerance) ? Verdict::kSame
                                                                        : Verdict::kUnclear;
  }

  const Results& old_;
  const Results& new_;
  const RegressionOptions& options_;
  std::map<size_t, RowSamples> samples_;  // by index into the rows
  Regression regression_;
};

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kFaster:
      return "faster";
    case Verdict::kUnclear:
      return "unclear";
    case Verdict::kNew:
      return "new";
    case Verdict::kMissing:
      return "MISSING";
    case Verdict::kSlower:
      return "SLOWER";
    case Verdict::kInvalid:
      return "INVALID";
  }
  return "";
}

std::string PercentChange(double ratio) {
  if (ratio == 0 || std::isinf(ratio)) return "unknown";
  return absl::StrFormat("%+.1f %%", 100 * (ratio - 1));
}

report::Table RowsTable(const Regression& regression) {
  report::Table table({"case", "strategy", "step time", "interval", "verdict", ""});
  for (const RegressionRow& row : regression.rows) {
    const bool known = !std::isnan(row.ratio.estimate);
    table.AddRow({row.case_id, row.strategy, known ? PercentChange(row.ratio.estimate) : "-",
                  known ? absl::StrCat("[", PercentChange(row.ratio.low), ", ",
                                       PercentChange(row.ratio.high), "]")
                        : "-",
                  VerdictName(row.verdict), row.reason});
  }
  return table;
}

std::string Conclusion(const Regression& regression, const RegressionOptions& options) {
  std::map<Verdict, int> counts;
  for (const RegressionRow& row : regression.rows) ++counts[row.verdict];
  const char* verdict = regression.failed()     ? "REGRESSION: "
                        : regression.compared() ? "No regression: "
                                                : "NOTHING COMPARED: ";
  std::string text = absl::StrCat(verdict, regression.rows.size(), " rows");
  for (const auto& [verdict, count] : counts) {
    absl::StrAppend(&text, ", ", count, " ", VerdictName(verdict));
  }
  absl::StrAppend(&text, ". Slower: the whole interval is above ",
                  PercentChange(1 + options.tolerance), " (",
                  PercentChange(1 + options.tolerance_apart),
                  " if not measured in turns); all intervals hold together with ",
                  absl::StrFormat("%g %%", 100 * options.confidence), " confidence.");
  if (counts[Verdict::kUnclear] > 0) {
    absl::StrAppend(&text, " Unclear rows may hide a slowdown of ",
                    absl::StrFormat("%g %%", 100 * options.must_find),
                    "; use more turns or a quieter machine.");
  }
  return text;
}

std::string Notes(const Regression& regression) {
  std::string text;
  for (const std::string& note : regression.notes) absl::StrAppend(&text, note, "\n");
  return text;
}

}  // namespace

bool Regression::failed() const {
  return std::any_of(rows.begin(), rows.end(), [](const RegressionRow& row) {
    return row.verdict == Verdict::kSlower || row.verdict == Verdict::kInvalid ||
           row.verdict == Verdict::kMissing;
  });
}

bool Regression::compared() const {
  return std::any_of(rows.begin(), rows.end(),
                     [](const RegressionRow& row) { return !std::isnan(row.ratio.estimate); });
}

bool Regression::settled() const {
  if (failed()) return true;
  const auto is_unclear = [](const RegressionRow& row) { return row.verdict == Verdict::kUnclear; };
  if (!rows.empty() && rows.back().case_id == kAllRows) return !is_unclear(rows.back());
  return std::none_of(rows.begin(), rows.end(), is_unclear);
}

bool NeedsAnotherRound(const Regression& regression, int rounds) {
  return rounds % 2 == 1 || !regression.settled();
}

Regression CompareResults(const Results& old_results, const Results& new_results,
                          const RegressionOptions& options) {
  return Comparer(old_results, new_results, options).Run();
}

std::string RegressionText(const Regression& regression, const RegressionOptions& options) {
  return absl::StrCat(RowsTable(regression).ToText(), Notes(regression),
                      Conclusion(regression, options), "\n");
}

std::string RegressionMarkdown(const Regression& regression, const RegressionOptions& options) {
  return absl::StrCat(Conclusion(regression, options), "\n\n", RowsTable(regression).ToMarkdown(),
                      "\n", Notes(regression));
}

}  // namespace dpipe::bench
