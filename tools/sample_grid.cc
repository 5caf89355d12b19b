#include "tools/sample_grid.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "core/base/file.h"
#include "data/image_encode.h"
#include "models/stable_diffusion/sampler.h"

namespace dpipe::tools {

absl::StatusOr<std::string> DrawSampleGrid(const models::TrainableModel& model,
                                           const models::NamedTensors& weights,
                                           const models::DrawRequest& request,
                                           const std::vector<DeviceWorker*>& workers,
                                           const std::string& folder, int64_t step,
                                           TrainingObserver* observer) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Image> images,
                         model.Draw(weights, request, workers, /*on_progress=*/nullptr));
  const int columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(images.size()))));
  const Image grid = models::MakeGrid(images, columns, /*margin=*/4, /*zoom=*/2);
  DPIPE_ASSIGN_OR_RETURN(const std::string png, EncodePng(grid));
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  const std::string path = absl::StrFormat("%s/step_%06d.png", folder, step);
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, png));
  observer->OnSamples({step, path, &grid});
  return path;
}

}  // namespace dpipe::tools
