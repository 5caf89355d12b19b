// Any folder of images with captions.
//
// Two layouts:
//   1. metadata.jsonl, one JSON object per line, or else metadata.csv, in the folder or in its
//      sub-folders (see FindMetadataFiles). Columns: "file_name", relative to the file's own
//      folder; captions (see CaptionColumn); perhaps "conditioning_image", as "file_name".
//   2. neither: every .jpg, .jpeg, .png and .webp in the folder and its sub-folders, with a text
//      file beside each (see FindSidecarFiles); the condition picture of cat.jpg, if it has one, is
//      cat.cond.png or cat.conditioning.png. Names that begin with a dot are left out.
//
// Captions are those that CaptionText makes of these. Samples are numbered by row, or by name,
// relative to the folder, in byte order.
//
// Only regular files are opened, and symbolic links that end at one, wherever that is. FIFOs,
// sockets and devices count as missing.
#ifndef DPIPE_DATA_FOLDER_DATASET_H_
#define DPIPE_DATA_FOLDER_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "data/caption_column.h"
#include "data/counted_names.h"
#include "data/folder_listing.h"
#include "data/image.h"
#include "data/image_decode.h"
#include "data/metadata_files.h"
#include "data/sample_findings.h"
#include "data/sample_source.h"
#include "nlohmann/json_fwd.hpp"

namespace dpipe {

struct FolderDatasetOptions {
  // The column that has the images' file names; empty: "file_name".
  std::string file_column;
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
  // Reads the list and looks for every file, but opens no image. A file name with backslashes, as
  // Windows has them, is tried as it is, then with slashes. Images in the folder that the list
  // omits are noted.
  //
  // NotFound if the folder is not there, or none of the images that the list names; InvalidArgument
  // for what is no folder, for rows that are not such objects, that have no caption, or whose paths
  // leave the folder (see ReadMetadataRows), for images without a caption (of the first five, and
  // how many there are), or an empty list; errors of FindMetadataFiles. An image of the list that
  // is missing is a sample that cannot be loaded.
  static absl::StatusOr<FolderDataset> Open(const std::string& folder,
                                            const FolderDatasetOptions& options = {});

  int32_t size() const override { return static_cast<int32_t>(samples_.size()); }
  const std::string& name() const override { return folder_; }
  std::string image_path(int32_t index) const override;
  bool has_condition(int32_t index) const override { return !samples_[index].condition.empty(); }
  std::string fingerprint() const override { return fingerprint_; }
  std::vector<std::string> notes() const override { return notes_; }
  std::vector<std::string> findings() const override;

  absl::StatusOr<std::vector<std::string>> LoadCaptions(int32_t index) const override {
    return samples_[index].captions;
  }
  // Errors are those of ReadImage.
  absl::StatusOr<Image> LoadImage(int32_t index) const override;
  absl::StatusOr<ImageSize> LoadImageSize(int32_t index) const override;
  absl::StatusOr<std::string> LoadIdentity(int32_t index) const override;
  absl::StatusOr<Image> LoadCondition(int32_t index) const override;

 private:
  struct Sample {
    std::string file_name;
    std::vector<std::string> captions;
    std::string condition;  // a file name; empty: none
  };

  FolderDataset(std::string folder, const FolderDatasetOptions& options);
  // Adds the samples of a file of the folder.
  absl::Status ReadMetadata(const std::string& file);
  // Of a row of a file in `sub_folder`: "train/" or "".
  absl::StatusOr<Sample> ParseRow(const nlohmann::ordered_json& row, const std::string& sub_folder);
  // A column that names a file below `sub_folder`.
  absl::StatusOr<std::string> FileIn(const nlohmann::ordered_json& row, const std::string& column,
                                     const std::string& sub_folder) const;
  absl::Status ReadSidecars(const FolderListing& listing);
  // Looks at every image's file: what is missing is noted, and sizes go into the fingerprint.
  // `list` is where the images are named.
  absl::Status LookForFiles(const std::string& list);
  // Notes the images of the folder that are no samples, but for those of other splits.
  void LookForOmitted(const FolderListing& listing, const MetadataFiles& metadata);
  std::string PathOf(const std::string& file_name) const;

  std::string folder_;
  FolderDatasetOptions options_;
  CaptionColumn caption_column_;
  std::vector<Sample> samples_;
  int64_t num_without_caption_ = 0;  // which got the default one
  CountedNames not_utf8_;            // images with such a caption
  std::string fingerprint_;
  std::vector<std::string> notes_;
  std::unique_ptr<SampleFindings> findings_ = std::make_unique<SampleFindings>();
};

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDER_DATASET_H_
