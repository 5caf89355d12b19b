// Checks which fields an instruction sets, and their ranges.
#ifndef DPIPE_CORE_SCHEDULE_VERIFICATION_INSTRUCTION_FIELDS_H_
#define DPIPE_CORE_SCHEDULE_VERIFICATION_INSTRUCTION_FIELDS_H_

#include "core/base/status.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/verification/plan_shape.h"

namespace dpipe {

// Returns InvalidArgument unless every field that the instruction's kind uses is in range, and
// every other field is empty: -1 for indices, 0 for bytes, [0, 0) for ranges. (The value of `bytes`
// is not checked if it is used.)
absl::Status CheckFields(const Plan& plan, const PlanShape& shape, int rank, int index);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_VERIFICATION_INSTRUCTION_FIELDS_H_
