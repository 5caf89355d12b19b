// The first and the last step of a diffusion training program: noising the input, and the loss.
#ifndef DPIPE_MODELS_DIFFUSION_NOISE_NODES_H_
#define DPIPE_MODELS_DIFFUSION_NOISE_NODES_H_

#include "core/nn/program_builder.h"
#include "models/diffusion/noise_schedule.h"

namespace dpipe::diffusion {

// x0, noise [...] in fp32, timesteps int32 [] -> x_t [...] in the compute dtype. Its inputs get no
// gradient.
ValueId AddNoising(nn::ProgramBuilder* builder, const NoiseSchedule& schedule, ValueId x0,
                   ValueId noise, ValueId timesteps);

struct DiffusionLossInputs {
  ValueId prediction;  // in the compute dtype
  ValueId x0, noise;   // fp32
  ValueId timesteps;   // int32
};

// Adds a sample's mean squared error against the schedule's target (noise, v or x0), fp32 []. With
// `min_snr_gamma` > 0 it is weighted by MinSnrWeights. Only the prediction gets a gradient.
ValueId AddDiffusionLoss(nn::ProgramBuilder* builder, const NoiseSchedule& schedule,
                         double min_snr_gamma, const DiffusionLossInputs& inputs);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_NOISE_NODES_H_
