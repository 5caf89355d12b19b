// ControlNet v1.0 on Stable Diffusion v1.5 (Zhang, Rao and Agrawala, 2023).
#ifndef DPIPE_CORE_COST_ROOFLINE_CONTROLNET_H_
#define DPIPE_CORE_COST_ROOFLINE_CONTROLNET_H_

#include "core/cost/roofline/component_builder.h"
#include "core/cost/roofline/unet.h"

namespace dpipe::roofline {

// The locked U-Net's time embedding, encoder and middle: a frozen component "locked_encoder". Its
// inputs (noise and timesteps) are known in advance for any step, so it can run ahead. Outputs:
// "time", "skip_0" .. "skip_11", "middle".
ComponentWork LockedEncoder(const UNetArchitecture& architecture, int64_t latent_size);

// A backbone "controlnet" with these layers, in order:
// - add_noise;
// - the trainable copy (time embedding, condition embedding, encoder, middle);
// - thirteen zero convolutions, each of which adds the locked encoder's value to its own;
// - the locked decoder, frozen with gradient;
// - the loss.
//
// External inputs: those of UNetForTraining, the outputs of LockedEncoder, and the condition image
// "condition" fp32.
ComponentWork ControlNetForTraining(const UNetArchitecture& architecture, int64_t latent_size);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_CONTROLNET_H_
