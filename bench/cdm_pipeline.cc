// Trains a cascade by several strategies on this machine and prints a comparison. Its two backbones
// are placed on the devices in opposite directions; it has no frozen components.
//   bazel run //bench:cdm_pipeline
#include "bench/comparison/pipeline_main.h"

int main(int argc, char** argv) {
  dpipe::bench::PipelineProgram program;
  program.name = "cdm_pipeline";
  program.summary = "Trains a cascade of two pixel-space models";
  program.model.kind = "cascade";
  // No offline cache: there are no frozen components.
  program.defaults = {{"model", "tiny_cdm"},
                      {"strategies", "data_parallel,gpipe,1f1b,diffusionpipe"}};
  return dpipe::bench::PipelineMain(program, argc, argv);
}
