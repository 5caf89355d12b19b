// Trains a small FLUX.1 by several strategies on this machine and prints a comparison. Its frozen
// components are the VAE, CLIP and T5.
//   bazel run //bench:flux_pipeline
#include "bench/comparison/pipeline_main.h"

int main(int argc, char** argv) {
  dpipe::bench::PipelineProgram program;
  program.name = "flux_pipeline";
  program.summary = "Trains FLUX.1";
  program.model.kind = "flux";
  program.full_size_model = "flux_512";
  program.defaults = {{"model", "tiny_flux"}};
  return dpipe::bench::PipelineMain(program, argc, argv);
}
