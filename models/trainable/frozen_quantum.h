// How many samples frozen components run on at a time where nobody says.
#ifndef DPIPE_MODELS_TRAINABLE_FROZEN_QUANTUM_H_
#define DPIPE_MODELS_TRAINABLE_FROZEN_QUANTUM_H_

namespace dpipe::models {

// 4, 2 or 1: the largest that divides each device's share of the batch, 1 where the batch does not
// divide over the devices. So the global batch is a multiple of it, whatever it is.
int DefaultFrozenQuantum(int global_batch, int num_devices);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_FROZEN_QUANTUM_H_
