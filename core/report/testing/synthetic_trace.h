// Simulated execution of a synthetic plan: every instruction runs in order, as soon as its data is
// there.
#ifndef DPIPE_CORE_REPORT_TESTING_SYNTHETIC_TRACE_H_
#define DPIPE_CORE_REPORT_TESTING_SYNTHETIC_TRACE_H_

#include "core/proto/trace.pb.h"
#include "core/report/testing/synthetic_plan.h"

namespace dpipe::report {

// Returns a trace of `options.num_steps` steps of `plan`, with jitter. Steps begin together,
// because the optimizer waits for every device. CHECK-fails if the plan deadlocks.
Trace ReplaySyntheticPlan(const Plan& plan, const SyntheticOptions& options);

// Returns the replayed MakeSyntheticPlan(options).
Trace MakeSyntheticTrace(const SyntheticOptions& options);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TESTING_SYNTHETIC_TRACE_H_
