// Checks that the times and bytes of a training step fit into 64 bits.
#ifndef DPIPE_CORE_COST_STEP_BOUND_H_
#define DPIPE_CORE_COST_STEP_BOUND_H_

#include <cstdint>

#include "core/base/status.h"
#include "core/cost/cost_model.h"

namespace dpipe {

// More than the samples of any training step, and few enough for lists of them.
constexpr int64_t kMaxGlobalBatch = int64_t{1} << 20;

// Returns InvalidArgument if `num_steps` steps of `global_batch` samples could take more than 2^62
// ns (146 years) in sequence; the message names the largest part and its value. The limit bounds
// every sum in planners and simulators. Also InvalidArgument if all that a step of so many samples
// keeps or moves could be more than 2^62 bytes, and for a batch outside [1,
// kMaxGlobalBatch]. Linear in layers and values.
absl::Status CheckStepTimes(const CostModel& cost, int64_t global_batch, int64_t num_steps);

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_STEP_BOUND_H_
