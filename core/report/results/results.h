// Stored results of a benchmark (core/proto/results.proto): JSON, and what can be said of one
// strategy's samples.
#ifndef DPIPE_CORE_REPORT_RESULTS_RESULTS_H_
#define DPIPE_CORE_REPORT_RESULTS_RESULTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/proto/results.pb.h"

namespace dpipe::report {

// CaseResult.backend of steps that the runtime takes in virtual time, without computing. They show
// how far a plan's order can be kept, but are no measurements.
inline constexpr char kEmulatedBackend[] = "emulated";

// True if the strategy ran and its numbers count.
bool Counts(const StrategyResult& result);
// Median over turns.
double MedianImagesPerSecond(const StrategyResult& result);
// Median over the turns' median steps: the step time that corresponds to MedianImagesPerSecond.
double MedianStepMs(const StrategyResult& result);
// Return the maximum over devices; 0 if unknown.
int64_t PeakMemoryBytes(const StrategyResult& result);
int64_t PredictedPeakMemoryBytes(const StrategyResult& result);
// Return nullptr if absent.
const StrategyResult* FindStrategyResult(const CaseResult& results, absl::string_view strategy);
const CaseResult* FindCase(const Results& results, absl::string_view id);

template <typename Field>
std::vector<double> Numbers(const Field& field) {
  return {field.begin(), field.end()};
}

// Converts a Results or a CaseResult to indented JSON that ends in a newline, with the fields'
// names as in the .proto file. Sets the format of Results. Doubles are written so that reading
// restores the same bits; bytes that are not UTF-8 become U+FFFD.
std::string ResultsToJson(Results results);
std::string CaseToJson(const CaseResult& result);

// Return InvalidArgument, naming the place, if `json` is not of this format and version.
absl::StatusOr<Results> ResultsFromJson(absl::string_view json);
absl::StatusOr<CaseResult> CaseFromJson(absl::string_view json);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_RESULTS_RESULTS_H_
