// Any folder of images with captions.
//
// Two layouts:
//   1. `metadata.jsonl`, one JSON object a line, or else `metadata.csv` (see ReadMetadataRows):
//   "file_name" (below the folder), a caption column, and perhaps "conditioning_image" (below the
//   folder too);
//   2. neither: every .jpg, .jpeg, .png and .webp in the folder and its sub-folders, beside a .txt
//   of the same name; the condition picture of cat.jpg, if it has one, is cat.cond.png or
//   cat.conditioning.png. Names that begin with a dot are left out.
// Captions are those that CaptionText makes of what is there. Samples are numbered by row, or by
// name, relative to the folder, in byte order.
#ifndef DPIPE_DATA_FOLDER_DATASET_H_
#define DPIPE_DATA_FOLDER_DATASET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "data/image.h"
#include "data/image_decode.h"
#include "data/sample_source.h"
#include "nlohmann/json_fwd.hpp"

namespace dpipe {

struct FolderDatasetOptions {
  // The column that has the caption; empty: "text" or else "caption".
  std::string caption_column;
  // Of images that have none: no .txt, no such column in their row, or null there. Without it, they
  // are errors.
  std::optional<std::string> default_caption;
  DecodeLimits decode_limits;
};

// The list of samples.
class FolderDataset final : public SampleSource {
 public:
  // Reads the list and looks for every file, but opens no image.
  //
  // NotFound if the folder is not there, or none of the images that the list names; InvalidArgument
  // for rows that are not such objects, that have no caption, or whose paths leave the folder (see
  // ReadMetadataRows), for images without a caption (of the first five, and how many there are), or
  // an empty list. An image of the list that is missing is a sample that cannot be loaded.
  static absl::StatusOr<FolderDataset> Open(const std::string& folder,
                                            const FolderDatasetOptions& options = {});

  int32_t size() const override { return static_cast<int32_t>(samples_.size()); }
  const std::string& name() const override { return folder_; }
  std::string image_path(int32_t index) const override;
  bool has_condition(int32_t index) const override { return !samples_[index].condition.empty(); }
  const std::string& caption(int32_t index) const { return samples_[index].caption; }
  std::string fingerprint() const override { return fingerprint_; }
  std::vector<std::string> notes() const override { return notes_; }

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
  absl::StatusOr<Sample> ParseRow(const nlohmann::ordered_json& row);
  absl::StatusOr<std::string> CaptionOf(const nlohmann::ordered_json& row);
  absl::Status ReadSidecars();
  // Looks at every image's file: what is missing is noted, and sizes go into the fingerprint.
  // `list` is where the images are named.
  absl::Status LookForFiles(const std::string& list);
  std::string PathOf(const std::string& file_name) const;

  std::string folder_;
  FolderDatasetOptions options_;
  std::vector<Sample> samples_;
  int64_t num_without_caption_ = 0;  // which got the default one
  std::string fingerprint_;
  std::vector<std::string> notes_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDER_DATASET_H_
