#include "models/trainable/frozen_quantum.h"

namespace dpipe::models {

int DefaultFrozenQuantum(int global_batch, int num_devices) {
  // Larger quanta have less overhead, but above 4 images of 64 x 64 the kernels gain nothing.
  for (int quantum : {4, 2}) {
    if (global_batch % (quantum * num_devices) == 0) return quantum;
  }
  return 1;
}

}  // namespace dpipe::models
