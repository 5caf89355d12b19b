// Expected losses of an emulated model.
#ifndef DPIPE_CORE_EMULATION_REFERENCE_LOSSES_H_
#define DPIPE_CORE_EMULATION_REFERENCE_LOSSES_H_

#include <vector>

#include "core/base/status.h"
#include "core/emulation/emulated_model.h"
#include "core/nn/model.h"

namespace dpipe {

// Trains the model from its initial parameters, with the whole batch and all layers at once,
// without plan, ranks or communicator. `self_conditioning`: backbones that take their own estimate
// get one. Returns, by step, the sum over the backbones of the mean loss over the batch.
absl::StatusOr<std::vector<double>> ReferenceLosses(const nn::Model& model, EmulatedInputs* inputs,
                                                    int global_batch, bool self_conditioning,
                                                    int num_steps);

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_REFERENCE_LOSSES_H_
