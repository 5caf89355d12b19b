// Which fields of an instruction mean something, and what they may be.
#ifndef DPIPE_CORE_SCHEDULE_VERIFICATION_INSTRUCTION_FIELDS_H_
#define DPIPE_CORE_SCHEDULE_VERIFICATION_INSTRUCTION_FIELDS_H_

#include "core/base/status.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/verification/plan_shape.h"

namespace dpipe {

// InvalidArgument unless every field that means something for the instruction's kind is in range,
// and every other one is empty: -1 for indices, 0 for bytes, [0, 0) for ranges.
absl::Status CheckFields(const Plan& plan, const PlanShape& shape, int rank, int index);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_VERIFICATION_INSTRUCTION_FIELDS_H_
