// Figures of documents, each computed from the raw file that it comes from.
//
// A figure in a Markdown file stands between two comments, which readers do not see. The first says
// how it is computed:
//
//   <!--= ratio bench/results/cpu_2_cores/results.json diffusionpipe data_parallel -->1.03x<!--/-->
//
//   rate CASE STRATEGY              images per second, median over turns: "164.3"
//   ratio CASE STRATEGY RIVALS      throughput over the fastest of RIVALS: "1.03x"
//   ratio_bounds CASE STRATEGY RIVALS   the same with its 95 % interval: "1.03x [1.01, 1.05]"
//   range CASES STRATEGY RIVALS     minimum and maximum of that ratio: "0.92x to 1.03x"
//   runs CASES STRATEGIES RIVALS    a table: rate and ratio in the first case, range over all
//   ratios CASES STRATEGIES RIVALS  a table: the ratio with its interval, one column per case
//   predictions CASES STRATEGIES RIVALS   a table, two columns per case: rate and ratio with its
//                                   interval; how much longer the predicted step is
//   step FILE ARGUMENTS             step of a plan that //tools:plan printed: "171.8 ms"
//   plans FILE STRATEGIES ARGUMENTS a table: step, idle share and pipeline of each strategy's plan
//   json FILE POINTER FORMAT        a value (RFC 6901) in printf's format: "%.1f", "%s"
//   find FILE REGEX                 the first group of the first match (ECMAScript, to the end)
//   number FILE FORMAT REGEX        the same group, a number, in printf's format
//
// FILE is relative to the root of the repository. A CASE is a file of results.proto, with "#ID" if
// it has several cases, and perhaps with "TITLE=" before it, in which "_" stands for a blank.
// CASES, STRATEGIES and RIVALS are separated by commas. A plan is found by the arguments of its
// command after "--", up to "--profile"; the table adds "--strategy=". A table, or a group of
// several lines, begins and ends with an empty line.
#ifndef DPIPE_TOOLS_FIGURES_FIGURES_H_
#define DPIPE_TOOLS_FIGURES_FIGURES_H_

#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/proto/results.pb.h"

namespace dpipe {

class Figures {
 public:
  // Reads files below the folder `root`, each once.
  explicit Figures(std::string root) : root_(std::move(root)) {}

  // Returns the text for an expression. Returns an error that names the expression or the file if
  // it cannot be computed.
  absl::StatusOr<std::string> Evaluate(absl::string_view expression);

  // Returns `markdown` with every figure recomputed. Text outside of figures stays as it is. An
  // error names the line.
  absl::StatusOr<std::string> Update(absl::string_view markdown);

 private:
  absl::StatusOr<std::string> EvaluateWords(absl::string_view expression);
  absl::StatusOr<std::string> Text(const std::string& file);
  absl::StatusOr<const Results*> ReadResults(const std::string& file);
  absl::StatusOr<const CaseResult*> FindCase(absl::string_view name);
  absl::StatusOr<std::string> Range(absl::string_view cases, const std::string& strategy,
                                    absl::string_view rivals, int* num_runs);
  absl::StatusOr<std::string> RunsTable(absl::string_view cases, absl::string_view strategies,
                                        absl::string_view rivals);
  absl::StatusOr<std::string> RatiosTable(absl::string_view cases, absl::string_view strategies,
                                          absl::string_view rivals);
  absl::StatusOr<std::string> PredictionsTable(absl::string_view cases,
                                               absl::string_view strategies,
                                               absl::string_view rivals);

  // Returns the first group of the first match.
  absl::StatusOr<std::string> Find(const std::string& file, absl::string_view pattern);

  absl::StatusOr<std::string> PlansTable(const std::string& file, absl::string_view strategies,
                                         const std::string& arguments);
  // Returns the first group of `pattern` in what //tools:plan printed for the arguments.
  absl::StatusOr<std::string> OfPlan(const std::string& file, const std::string& arguments,
                                     const std::string& pattern);

  const std::string root_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, Results> results_;
};

}  // namespace dpipe

#endif  // DPIPE_TOOLS_FIGURES_FIGURES_H_
