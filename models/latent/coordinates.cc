#include "models/latent/coordinates.h"

#include "core/base/check.h"

namespace dpipe::models {
namespace {

// Returns the coordinate of latent pixel i of a patch that begins at `start` of `whole` pixels.
float Coordinate(int64_t i, int start, int whole, int64_t downscale) {
  const double place =
      static_cast<double>(start) / static_cast<double>(downscale) + static_cast<double>(i);
  const int64_t last = whole / downscale - 1;
  return last == 0 ? 0.0f : static_cast<float>(2 * place / static_cast<double>(last) - 1);
}

}  // namespace

Tensor PatchCoordinates(const std::shared_ptr<Device>& device, const std::vector<Patch>& patches,
                        int64_t downscale) {
  DPIPE_CHECK(!patches.empty());
  const int64_t height = patches[0].size.height / downscale;
  const int64_t width = patches[0].size.width / downscale;
  const int64_t count = static_cast<int64_t>(patches.size());
  Tensor coordinates = Tensor::Empty(device, {count, height, width, 2}, DType::kF32);
  float* out = coordinates.data<float>();
  for (const Patch& patch : patches) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        *out++ = Coordinate(x, patch.left, patch.whole.width, downscale);
        *out++ = Coordinate(y, patch.top, patch.whole.height, downscale);
      }
    }
  }
  return coordinates;
}

}  // namespace dpipe::models
