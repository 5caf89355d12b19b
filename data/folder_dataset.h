// Any folder of images with captions.
//
// Two layouts:
//   1. `metadata.jsonl`, one JSON object a line: "file_name" (below the folder), a caption column,
//   and perhaps "conditioning_image" (below the folder too);
//   2. no metadata.jsonl: every .jpg, .jpeg, .png and .webp beside a .txt of the same name; the
//   condition picture of cat.jpg, if it has one, is cat.cond.png or cat.conditioning.png.
// Captions are those that CaptionText makes of what is there. Samples are numbered by line, or by
// name in byte order.
#ifndef DPIPE_DATA_FOLDER_DATASET_H_
#define DPIPE_DATA_FOLDER_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/image.h"
#include "data/image_decode.h"
#include "data/sample_source.h"

namespace dpipe {

struct FolderDatasetOptions {
  // The column that has the caption; empty: "text" or else "caption".
  std::string caption_column;
  DecodeLimits decode_limits;
};

// The list of samples.
class FolderDataset final : public SampleSource {
 public:
  // Reads the list and looks for every file, but opens no image.
  //
  // NotFound if the folder is not there; InvalidArgument, naming the file and line, for a line that
  // is not UTF-8 or not such an object, an image that is missing, a path that leaves the folder, or
  // an empty list.
  static absl::StatusOr<FolderDataset> Open(const std::string& folder,
                                            const FolderDatasetOptions& options = {});

  int32_t size() const override { return static_cast<int32_t>(samples_.size()); }
  const std::string& name() const override { return folder_; }
  std::string image_path(int32_t index) const override;
  bool has_condition(int32_t index) const override { return !samples_[index].condition.empty(); }
  const std::string& caption(int32_t index) const { return samples_[index].caption; }

  absl::StatusOr<std::string> LoadCaption(int32_t index) const override { return caption(index); }
  // Errors are those of ReadImage.
  absl::StatusOr<Image> LoadImage(int32_t index) const override;
  absl::StatusOr<ImageSize> LoadImageSize(int32_t index) const override;
  absl::StatusOr<std::string> LoadIdentity(int32_t index) const override;
  absl::StatusOr<Image> LoadCondition(int32_t index) const override;

 private:
  struct Sample {
    std::string file_name;
    std::string caption;
    std::string condition;  // a file name; empty: none
  };

  FolderDataset(std::string folder, const FolderDatasetOptions& options)
      : folder_(std::move(folder)), options_(options) {}
  absl::Status ReadMetadata(const std::string& path);
  absl::StatusOr<Sample> ParseLine(const std::string& line) const;
  // Whether there is such a file below the folder; `what` names the column.
  absl::Status CheckFile(const char* what, const std::string& file_name) const;
  absl::Status ReadSidecars();

  std::string folder_;
  FolderDatasetOptions options_;
  std::vector<Sample> samples_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDER_DATASET_H_
