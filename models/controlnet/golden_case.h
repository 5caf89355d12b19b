// What diffusers computes with a ControlNet, and what these programs do; see
// testdata/make_goldens.py.
#ifndef DPIPE_MODELS_CONTROLNET_GOLDEN_CASE_H_
#define DPIPE_MODELS_CONTROLNET_GOLDEN_CASE_H_

#include <memory>
#include <string>

#include "core/tensor/tensor.h"
#include "models/controlnet/controlnet_config.h"
#include "models/diffusion/noise_schedule.h"
#include "models/unet/unet.h"

namespace dpipe::models {

struct ControlNetGolden {
  std::string name;  // "controlnet_mixed"
  std::string unet;  // "unet_mixed"
  std::string file;  // of the goldens
  diffusion::PredictionType type;
  bool with_prediction = true;  // one more forward pass, of the program for sampling
};

// Relative to the expected ones: of the whole prediction and all losses in the L2 norm, and the
// largest of any parameter's gradient's norm.
struct ControlNetGoldenErrors {
  double prediction = 0, loss = 0, gradient_norm = 0;
  std::string worst_gradient;  // its parameter
};

ControlNetConfig GoldenControlNet(const ControlNetGolden& c);
UNetConfig GoldenUNet(const ControlNetGolden& c);

// Both ways: sampling's program, and the locked encoder followed by the trained one, with the same
// weights. Forward and backward; dies where the library fails.
ControlNetGoldenErrors MeasureControlNetGolden(const ControlNetGolden& c, DType dtype,
                                               const std::shared_ptr<Device>& device);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CONTROLNET_GOLDEN_CASE_H_
