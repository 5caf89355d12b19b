// Trains a ControlNet by several strategies on this machine and prints a comparison. Its frozen
// components are the VAE, the text encoder and the locked U-Net's encoder.
//   bazel run //bench:controlnet_pipeline
#include "bench/comparison/pipeline_main.h"

int main(int argc, char** argv) {
  dpipe::bench::PipelineProgram program;
  program.name = "controlnet_pipeline";
  program.summary = "Trains a ControlNet";
  program.model.kind = "controlnet";
  program.caption_drop = 0.5;
  program.full_size_model = "controlnet_v1_0_512";
  // No offline cache: the locked encoder's output depends on the step's noise.
  program.defaults = {{"strategies", "data_parallel,gpipe,1f1b,diffusionpipe"}};
  return dpipe::bench::PipelineMain(program, argc, argv);
}
