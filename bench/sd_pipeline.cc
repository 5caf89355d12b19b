// The main job: trains Stable Diffusion by several strategies on this machine and prints a
// comparison.
//   bazel run //bench:sd_pipeline
#include "bench/comparison/pipeline_main.h"

int main(int argc, char** argv) {
  dpipe::bench::PipelineProgram program;
  program.name = "sd_pipeline";
  program.summary = "Trains Stable Diffusion";
  return dpipe::bench::PipelineMain(program, argc, argv);
}
