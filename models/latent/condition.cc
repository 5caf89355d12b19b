#include "models/latent/condition.h"

#include "core/base/check.h"

namespace dpipe::models {

absl::StatusOr<Tensor> PictureCondition::ForTraining(DataLoader* loader, int64_t step,
                                                     SampleRange samples,
                                                     const std::shared_ptr<Device>& device) const {
  const ImageSize size = loader->SizeOf(step);
  Tensor pixels = Tensor::Empty(device, {samples.size(), size.height, size.width, 3}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(loader->LoadConditions(step, samples, pixels.data<float>()));
  return pixels;
}

absl::StatusOr<Tensor> PictureCondition::ForDrawing(const DrawnPictures& pictures,
                                                    const std::shared_ptr<Device>& device) const {
  Tensor tensor = Tensor::Empty(
      device, {pictures.count, pictures.size.height, pictures.size.width, 3}, DType::kF32);
  float* out = tensor.data<float>();
  for (const Image& image : *pictures.conditions) {
    for (uint8_t byte : image.pixels) *out++ = byte / 255.0f;
  }
  return tensor;
}

namespace {

Tensor EqualRows(int count, float value, const std::shared_ptr<Device>& device) {
  return Tensor::FromHost<float>(device, {count}, std::vector<float>(count, value));
}

}  // namespace

absl::StatusOr<Tensor> GuidanceCondition::ForTraining(DataLoader* loader, int64_t step,
                                                      SampleRange samples,
                                                      const std::shared_ptr<Device>& device) const {
  return EqualRows(samples.size(), training_scale_, device);
}

absl::StatusOr<Tensor> GuidanceCondition::ForDrawing(const DrawnPictures& pictures,
                                                     const std::shared_ptr<Device>& device) const {
  return EqualRows(pictures.count, pictures.options->guidance, device);
}

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

absl::StatusOr<Tensor> CoordinatesCondition::ForTraining(
    DataLoader* loader, int64_t step, SampleRange samples,
    const std::shared_ptr<Device>& device) const {
  std::vector<Patch> patches;
  for (int i = samples.begin; i < samples.end; ++i) patches.push_back(loader->PatchOf(step, i));
  return PatchCoordinates(device, patches, downscale_);
}

absl::StatusOr<Tensor> CoordinatesCondition::ForDrawing(
    const DrawnPictures& pictures, const std::shared_ptr<Device>& device) const {
  const std::vector<Patch> whole(pictures.count, Patch{0, 0, pictures.size, pictures.size});
  return PatchCoordinates(device, whole, downscale_);
}

namespace {

Tensor TimeIds(const std::shared_ptr<Device>& device, const std::vector<SampleCrop>& crops) {
  Tensor ids = Tensor::Empty(device, {static_cast<int64_t>(crops.size()), 6}, DType::kF32);
  float* out = ids.data<float>();
  for (const SampleCrop& crop : crops) {
    for (const int number : {crop.original.height, crop.original.width, crop.top, crop.left,
                             crop.size.height, crop.size.width}) {
      *out++ = static_cast<float>(number);
    }
  }
  return ids;
}

}  // namespace

absl::StatusOr<Tensor> TimeIdsCondition::ForTraining(DataLoader* loader, int64_t step,
                                                     SampleRange samples,
                                                     const std::shared_ptr<Device>& device) const {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<SampleCrop> crops, loader->Crops(step, samples));
  return TimeIds(device, crops);
}

absl::StatusOr<Tensor> TimeIdsCondition::ForDrawing(const DrawnPictures& pictures,
                                                    const std::shared_ptr<Device>& device) const {
  const SampleCrop whole = {pictures.size, 0, 0, pictures.size};
  return TimeIds(device, std::vector<SampleCrop>(pictures.count, whole));
}

}  // namespace dpipe::models
