// Random programs, for property tests.
#ifndef DPIPE_CORE_NN_RANDOM_PROGRAM_H_
#define DPIPE_CORE_NN_RANDOM_PROGRAM_H_

#include <cstdint>

#include "core/nn/program.h"

namespace dpipe::nn {

struct RandomProgramOptions {
  uint64_t seed = 1;
  int num_layers = 6;
  int max_nodes_per_layer = 3;
  // Layers before this one are frozen, those after it trainable, some frozen with gradient.
  int frozen_layers = 1;
};

// Linear layers, norms, activations, sums and joins over vectors of one external input "x" [6],
// wired at random with long and short live ranges; inputs repeat. Outputs are whatever nobody
// reads, named "out0", "out1", ...
Program RandomProgram(const RandomProgramOptions& options);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_RANDOM_PROGRAM_H_
