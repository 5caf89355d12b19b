// How far modelled profiles are from the profiles that were measured on one H200, from which their
// efficiencies were calibrated. core/cost/roofline/README.md and data/profiles/README.md quote it.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/cost/roofline/catalogue.h"
#include "core/cost/roofline/modelled_profile.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Totals over a component's layers: forward, input gradients, weight gradients, by local batch.
using Totals = std::map<int, std::vector<double>>;

Totals TotalsOf(const ComponentProfile& component) {
  Totals totals;
  for (const LayerProfile& layer : component.layers()) {
    for (const LayerTiming& t : layer.timings()) {
      std::vector<double>& sums = totals[t.local_batch()];
      sums.resize(3);
      sums[0] += static_cast<double>(t.forward_ns());
      sums[1] += static_cast<double>(t.input_grad_ns());
      sums[2] += static_cast<double>(t.weight_grad_ns());
    }
  }
  return totals;
}

struct Error {
  std::string file, component;
  int pass;          // index into Totals' sums
  double low, high;  // modelled / measured, over local batches of 4 and more
};

TEST(ModelledErrorTest, MatchesTheStatedError) {
  const std::map<std::string, roofline::ModelWork> models = {
      {"stable_diffusion_v2_1_512", roofline::StableDiffusionV21(512, false)},
      {"stable_diffusion_v1_5_512", roofline::StableDiffusionV15(512)},
      {"controlnet_v1_0_512", roofline::ControlNetV10(512)}};
  const Error errors[] = {
      {"stable_diffusion_v2_1_512", "vae_encoder", 0, 0.85, 0.85},
      {"stable_diffusion_v2_1_512", "unet", 0, 0.97, 1.09},
      {"stable_diffusion_v2_1_512", "unet", 1, 0.91, 0.96},
      {"stable_diffusion_v2_1_512", "unet", 2, 0.84, 1.08},
      {"stable_diffusion_v1_5_512", "unet", 0, 0.97, 1.05},
      {"stable_diffusion_v1_5_512", "unet", 1, 0.95, 0.99},
      {"stable_diffusion_v1_5_512", "unet", 2, 0.83, 1.09},
      {"controlnet_v1_0_512", "controlnet", 0, 0.95, 1.07},
      {"controlnet_v1_0_512", "controlnet", 1, 0.97, 1.00},
      {"controlnet_v1_0_512", "controlnet", 2, 0.72, 0.95},
      {"controlnet_v1_0_512", "locked_encoder", 0, 1.06, 1.06},
  };
  const auto& device = roofline::Devices().back();
  ASSERT_EQ(device.name, "h200_sxm");
  for (const Error& error : errors) {
    ModelProfile measured;
    const auto read = ReadTextProto("data/profiles/h200/" + error.file + ".textproto", &measured);
    ASSERT_TRUE(read.ok()) << read;
    const ModelProfile modelled = roofline::ModelledProfile(models.at(error.file), device);
    double low = 10, high = 0;
    for (int c = 0; c < measured.components_size(); ++c) {
      if (measured.components(c).name() != error.component) continue;
      ASSERT_EQ(modelled.components(c).name(), error.component);
      Totals predicted = TotalsOf(modelled.components(c));
      for (const auto& [batch, sums] : TotalsOf(measured.components(c))) {
        if (batch < 4 || predicted.count(batch) == 0) continue;
        const double ratio = predicted[batch][error.pass] / sums[error.pass];
        low = std::min(low, ratio);
        high = std::max(high, ratio);
      }
    }
    EXPECT_NEAR(low, error.low, 0.01) << error.file << " " << error.component << " " << error.pass;
    EXPECT_NEAR(high, error.high, 0.01)
        << error.file << " " << error.component << " " << error.pass;
  }
}

}  // namespace
}  // namespace dpipe
