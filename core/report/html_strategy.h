// One strategy's part of a report page: its timelines and where its devices' time went.
#ifndef DPIPE_CORE_REPORT_HTML_STRATEGY_H_
#define DPIPE_CORE_REPORT_HTML_STRATEGY_H_

#include <string>

#include "core/base/status.h"
#include "core/proto/trace.pb.h"
#include "core/report/results.h"

namespace dpipe::report {

// Traces of one strategy; either may be null and is then left out. Not owned.
struct StrategyTraces {
  std::string strategy;
  const Trace* measured = nullptr;
  const Trace* predicted = nullptr;
};

// The measured timeline, or the predicted one where there is no other, with what is known of the
// strategy beside its name; behind it, folded, the predicted one with its critical path and memory,
// what takes other times than predicted, and each device's time. `result` may be null. `id_prefix`
// begins the ids of its elements.
// InvalidArgument if a trace does not fit its own plan (see trace_index.h).
absl::StatusOr<std::string> StrategyHtml(const StrategyTraces& traces, const StrategyResult* result,
                                         const std::string& id_prefix);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_HTML_STRATEGY_H_
