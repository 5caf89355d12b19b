// A data set of captioned images in any folder.
//
// There are two layouts:
//   1. metadata.jsonl, one JSON object per line, or else metadata.csv, in the folder or in its
//      sub-folders (see FindMetadataFiles). Columns: "file_name", relative to the file's own
//      folder; captions (see CaptionColumn); optionally "conditioning_image", like "file_name".
//   2. Without metadata: every .jpg, .jpeg, .png and .webp in the folder and its sub-folders, with
//      a text file beside each (see FindSidecarFiles). The condition picture of cat.jpg, if any, is
//      cat.cond.png or cat.conditioning.png. Names that begin with a dot are skipped.
//
// Captions are decoded by CaptionText. Samples are numbered by row, or by their name relative to
// the folder in byte order.
//
// Opens only regular files, and symbolic links to regular files anywhere. FIFOs, sockets and
// devices count as missing.
#ifndef DPIPE_DATA_FOLDERS_FOLDER_DATASET_H_
#define DPIPE_DATA_FOLDERS_FOLDER_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "data/captions/caption_text.h"
#include "data/captions/sample_findings.h"
#include "data/folders/folder_listing.h"
#include "data/folders/metadata_files.h"
#include "data/images/image.h"
#include "data/images/image_decode.h"
#include "data/sample_source.h"
#include "nlohmann/json_fwd.hpp"

namespace dpipe {

struct FolderDatasetOptions {
  // The column with the images' file names. Empty: "file_name".
  std::string file_column;
  // The column with the caption. Empty: "text", or else "caption".
  std::string caption_column;
  // The caption of images without one: no .txt file, no such column in their row, or null there. If
  // it is not set, such images are errors.
  std::optional<std::string> default_caption;
  DecodeLimits decode_limits;
};

// The samples of a folder.
class FolderDataset final : public SampleSource {
 public:
  // Reads the list and checks that every file exists, but opens no image. A file name with Windows
  // backslashes is tried unchanged, then with slashes. Adds a note about images in the folder that
  // the list omits. A missing image of the list is a sample that cannot be loaded.
  //
  // Returns NotFound if the folder is missing, or all images of the list are. Returns
  // InvalidArgument if:
  // - `folder` is not a folder;
  // - a row has no file name or caption, or a path outside the folder (see ReadMetadataRows);
  // - images have no caption (names the first five, and their number);
  // - the list is empty.
  //
  // Also returns the errors of FindMetadataFiles.
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
  // Returns the errors of ReadImage.
  absl::StatusOr<Image> LoadImage(int32_t index) const override;
  absl::StatusOr<ImageSize> LoadImageSize(int32_t index) const override;
  absl::StatusOr<std::string> LoadIdentity(int32_t index) const override;
  absl::StatusOr<Image> LoadCondition(int32_t index) const override;

 private:
  struct Sample {
    std::string file_name;
    std::vector<std::string> captions;
    std::string condition;  // a file name; empty if there is none
  };

  FolderDataset(std::string folder, const FolderDatasetOptions& options);
  // Adds the samples of a metadata file of the folder.
  absl::Status ReadMetadata(const std::string& file);
  // Parses a row of a file in `sub_folder`, "train/" or "".
  absl::StatusOr<Sample> ParseRow(const nlohmann::ordered_json& row, const std::string& sub_folder);
  // Returns the value of a column that names a file below `sub_folder`.
  absl::StatusOr<std::string> FileIn(const nlohmann::ordered_json& row, const std::string& column,
                                     const std::string& sub_folder) const;
  absl::Status ReadSidecars(const FolderListing& listing);
  // Checks every image's file. Notes the missing ones and adds the sizes to the fingerprint. `list`
  // is the file or folder that names the images.
  absl::Status CheckFiles(const std::string& list);
  // Notes the images of the folder that are not samples, except those of other splits.
  void NoteOmitted(const FolderListing& listing, const MetadataFiles& metadata);
  std::string PathOf(const std::string& file_name) const;

  std::string folder_;
  FolderDatasetOptions options_;
  CaptionColumn caption_column_;
  std::vector<Sample> samples_;
  int64_t num_without_caption_ = 0;  // samples with the default caption
  CountedNames not_utf8_;            // images with such a caption
  std::string fingerprint_;
  std::vector<std::string> notes_;
  std::unique_ptr<SampleFindings> findings_ = std::make_unique<SampleFindings>();
};

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDERS_FOLDER_DATASET_H_
