// Values per sample that a denoiser reads beside noisy latents, timesteps and embeddings of text:
// a condition picture, coordinates of a patch, the size and crop of a picture, a guidance scale.
#ifndef DPIPE_MODELS_LATENT_CONDITION_H_
#define DPIPE_MODELS_LATENT_CONDITION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "data/images/image.h"
#include "data/images/patches.h"
#include "data/loader.h"
#include "models/diffusion/draw_options.h"

namespace dpipe::models {

// Pictures that are drawn together.
struct DrawnPictures {
  int count = 0;
  ImageSize size;  // in pixels
  const DrawOptions* options = nullptr;
  const std::vector<Image>* conditions = nullptr;  // one per picture if the denoiser reads them
};

// Immutable and thread-safe. Both functions return one row per sample, with the type of the
// denoiser's input.
class Condition {
 public:
  virtual ~Condition() = default;

  // The denoiser's input.
  virtual std::string name() const = 0;
  // True if every training sample and every prompt needs a condition picture.
  virtual bool reads_picture() const { return false; }
  // True if it tells the position of a sample in its picture, so that samples can be patches.
  virtual bool tells_position() const { return false; }

  // Returns the rows of a training step's samples, on `device`.
  virtual absl::StatusOr<Tensor> ForTraining(DataLoader* loader, int64_t step, SampleRange samples,
                                             const std::shared_ptr<Device>& device) const = 0;
  // Returns the rows of drawn pictures, in host memory on `device`.
  virtual absl::StatusOr<Tensor> ForDrawing(const DrawnPictures& pictures,
                                            const std::shared_ptr<Device>& device) const = 0;
};

// "condition" fp32 [height, width, 3] in [0, 1]: a picture of the sample's size.
class PictureCondition : public Condition {
 public:
  std::string name() const override { return "condition"; }
  bool reads_picture() const override { return true; }
  absl::StatusOr<Tensor> ForTraining(DataLoader* loader, int64_t step, SampleRange samples,
                                     const std::shared_ptr<Device>& device) const override;
  absl::StatusOr<Tensor> ForDrawing(const DrawnPictures& pictures,
                                    const std::shared_ptr<Device>& device) const override;
};

// "guidance" fp32 []: the guidance scale, for models whose predictions are distilled to be guided.
class GuidanceCondition : public Condition {
 public:
  // `training_scale` is that of all training samples.
  explicit GuidanceCondition(float training_scale) : training_scale_(training_scale) {}

  std::string name() const override { return "guidance"; }
  absl::StatusOr<Tensor> ForTraining(DataLoader* loader, int64_t step, SampleRange samples,
                                     const std::shared_ptr<Device>& device) const override;
  absl::StatusOr<Tensor> ForDrawing(const DrawnPictures& pictures,
                                    const std::shared_ptr<Device>& device) const override;

 private:
  const float training_scale_;
};

// Returns fp32 [patches, height, width, 2] for latents whose sides are the patch's divided by
// `downscale`: across and down, with the picture's first latent pixel at -1 and its last at 1 (Wang
// et al., arXiv 2304.12526). Patches may begin between two latent pixels of the picture. All must
// have one size.
Tensor PatchCoordinates(const std::shared_ptr<Device>& device, const std::vector<Patch>& patches,
                        int64_t downscale);

// "coordinates": PatchCoordinates of training samples, and of whole pictures.
class CoordinatesCondition : public Condition {
 public:
  // `downscale` is the number of pixels per latent along each side.
  explicit CoordinatesCondition(int64_t downscale) : downscale_(downscale) {}

  std::string name() const override { return "coordinates"; }
  bool tells_position() const override { return true; }
  absl::StatusOr<Tensor> ForTraining(DataLoader* loader, int64_t step, SampleRange samples,
                                     const std::shared_ptr<Device>& device) const override;
  absl::StatusOr<Tensor> ForDrawing(const DrawnPictures& pictures,
                                    const std::shared_ptr<Device>& device) const override;

 private:
  const int64_t downscale_;
};

// "time_ids" fp32 [6] of SDXL (Podell et al., arXiv 2307.01952, 2.2): height and width of the
// original picture, top and left of the crop, height and width of the sample, in pixels. Drawn
// pictures are whole ones of their own size, as by default in diffusers.
class TimeIdsCondition : public Condition {
 public:
  std::string name() const override { return "time_ids"; }
  absl::StatusOr<Tensor> ForTraining(DataLoader* loader, int64_t step, SampleRange samples,
                                     const std::shared_ptr<Device>& device) const override;
  absl::StatusOr<Tensor> ForDrawing(const DrawnPictures& pictures,
                                    const std::shared_ptr<Device>& device) const override;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_CONDITION_H_
