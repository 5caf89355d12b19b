// The main job: trains Stable Diffusion by several strategies on this machine and prints a
// comparison.
//   bazel run //bench:sd_pipeline
#include "bench/comparison/pipeline_main.h"

int main(int argc, char** argv) {
  dpipe::bench::PipelineProgram program;
  program.name = "sd_pipeline";
  program.summary = "Trains Stable Diffusion";
  program.full_size_model = "stable_diffusion_v2_1_512";
  return dpipe::bench::PipelineMain(program, argc, argv);
}
