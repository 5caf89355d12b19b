// Any folder of images with captions.
//
// Two layouts:
//   1. `metadata.jsonl`, one JSON object a line: "file_name" (below the folder) and a caption
//   column;
//   2. no metadata.jsonl: every .jpg, .jpeg, .png and .webp beside a .txt of the same name.
// Samples are numbered by line, or by name in byte order.
#ifndef DPIPE_DATA_FOLDER_DATASET_H_
#define DPIPE_DATA_FOLDER_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/image.h"
#include "data/image_decode.h"

namespace dpipe {

struct FolderDatasetOptions {
  // The column that has the caption; empty: "text" or else "caption".
  std::string caption_column;
  DecodeLimits decode_limits;
};

// The list of samples. Immutable, so any number of threads may use one.
class FolderDataset {
 public:
  // Reads the list and looks for every file, but opens no image.
  //
  // NotFound if the folder is not there; InvalidArgument, naming the file and line, for a line that
  // is not such an object, an image that is missing, a path that leaves the folder, or an empty
  // list.
  static absl::StatusOr<FolderDataset> Open(const std::string& folder,
                                            const FolderDatasetOptions& options = {});

  int32_t size() const { return static_cast<int32_t>(samples_.size()); }
  const std::string& folder() const { return folder_; }
  const std::string& caption(int32_t index) const { return samples_[index].caption; }
  std::string image_path(int32_t index) const;

  // Reads the image from disk each time. Errors are those of ReadImage and name the file.
  absl::StatusOr<Image> LoadImage(int32_t index) const;

 private:
  struct Sample {
    std::string file_name;
    std::string caption;
  };

  FolderDataset(std::string folder, const FolderDatasetOptions& options)
      : folder_(std::move(folder)), options_(options) {}
  absl::Status ReadMetadata(const std::string& path);
  absl::StatusOr<Sample> ParseLine(const std::string& line) const;
  absl::Status ReadSidecars();

  std::string folder_;
  FolderDatasetOptions options_;
  std::vector<Sample> samples_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDER_DATASET_H_
