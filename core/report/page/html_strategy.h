// One strategy's part of a report page: its timelines and its devices' time.
#ifndef DPIPE_CORE_REPORT_PAGE_HTML_STRATEGY_H_
#define DPIPE_CORE_REPORT_PAGE_HTML_STRATEGY_H_

#include <string>

#include "core/base/status.h"
#include "core/proto/results.pb.h"
#include "core/proto/trace.pb.h"

namespace dpipe::report {

// Traces of one strategy; a null one is omitted. Not owned.
struct StrategyTraces {
  std::string strategy;
  const Trace* measured = nullptr;
  const Trace* predicted = nullptr;
};

// Shows the measured timeline (the predicted one if there is no other) with the strategy's key
// numbers beside its name. A fold holds the predicted timeline with its critical path and memory,
// the instructions that deviate from the prediction, and each device's time. `result` may be null.
// `id_prefix` is prepended to the ids of its elements. Returns InvalidArgument if a trace does not
// fit its own plan (see trace_index.h).
absl::StatusOr<std::string> StrategyHtml(const StrategyTraces& traces, const StrategyResult* result,
                                         const std::string& id_prefix);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PAGE_HTML_STRATEGY_H_
