// Compares a ControlNet with diffusers; see testdata/make_goldens.py.
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
  bool with_prediction = true;  // also run the sampling program's forward pass
};

// Errors relative to the expected values: L2 norms for the prediction and for all losses, and the
// maximum over the norms of the parameters' gradients.
struct ControlNetGoldenErrors {
  double prediction = 0, loss = 0, gradient_norm = 0;
  std::string worst_gradient;  // its parameter
};

ControlNetConfig GoldenControlNet(const ControlNetGolden& c);
UNetConfig GoldenUNet(const ControlNetGolden& c);

// Measures both the sampling program, and the locked encoder followed by the trained program, with
// the same weights. Runs forward and backward passes. Fails a CHECK if the library returns an
// error.
ControlNetGoldenErrors MeasureControlNetGolden(const ControlNetGolden& c, DType dtype,
                                               const std::shared_ptr<Device>& device);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CONTROLNET_GOLDEN_CASE_H_
