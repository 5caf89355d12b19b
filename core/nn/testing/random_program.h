// Random programs, for property tests.
#ifndef DPIPE_CORE_NN_TESTING_RANDOM_PROGRAM_H_
#define DPIPE_CORE_NN_TESTING_RANDOM_PROGRAM_H_

#include <cstdint>

#include "core/nn/program.h"

namespace dpipe::nn {

struct RandomProgramOptions {
  uint64_t seed = 1;
  int num_layers = 6;
  int max_nodes_per_layer = 3;
  // Number of frozen layers at the front. Later ones are trainable, or frozen with gradient.
  int frozen_layers = 1;
};

// Generates linear layers, norms, activations, sums and concatenations over vectors from one
// external input "x" [6]. They are wired at random with long and short live ranges, and inputs
// repeat. Values that no node reads become outputs "out0", "out1", ...
Program RandomProgram(const RandomProgramOptions& options);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_TESTING_RANDOM_PROGRAM_H_
