// The default number of samples that frozen components process at a time.
#ifndef DPIPE_MODELS_TRAINABLE_FROZEN_QUANTUM_H_
#define DPIPE_MODELS_TRAINABLE_FROZEN_QUANTUM_H_

namespace dpipe::models {

// Returns 4, 2 or 1: the maximum that divides each device's share of the batch, or 1 if the devices
// do not divide the batch. The global batch is always a multiple of it.
int DefaultFrozenQuantum(int global_batch, int num_devices);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_FROZEN_QUANTUM_H_
