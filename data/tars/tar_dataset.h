// Tar shards of captioned images in WebDataset's layout. Members with the same key, such as
// 000.jpg, 000.txt and 000.json, are one sample. The key is the name up to the first dot of its
// last path component. Members whose names begin with a dot, like the "._000.jpg" that macOS adds,
// are ignored.
//
//   image      .jpg .jpeg .png .webp
//   caption    .txt, or .caption, or .json: its caption column
//   condition  .cond.png or .conditioning.png
//
// CaptionText and CaptionColumn decode the captions. Other members are ignored. Samples are
// numbered shard by shard, in the order of their first members.
//
// Names with several dots: by WebDataset's rule, 22.05.png and 22.06.png are two fields of the key
// 22, and not images. So if no member of a key is one of the above, its members are read as in a
// folder, by the last dot: 22.05.png and 22.05.txt are the sample 22.05. Beside a 22.png or a
// 22.txt they are other fields (like 22.mask.png), which are counted but not read.
//
// If two members of a key have the same part (an archive was appended to, or 0.png and 0.jpg), the
// last one counts, as in tar. Keys of different archives that were joined are different.
//
// A damaged shard (truncated, or not a tar at all) is read up to the damage; see ReadTarIndex. A
// truncated member, or else the damage itself, is a sample that cannot be loaded. Training counts
// it like an image that cannot be decoded.
//
// Opening the data set builds the index from the headers alone. It takes about 150 bytes per
// sample, plus its key.
#ifndef DPIPE_DATA_TARS_TAR_DATASET_H_
#define DPIPE_DATA_TARS_TAR_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "data/captions/caption_text.h"
#include "data/captions/sample_findings.h"
#include "data/images/image_decode.h"
#include "data/sample_source.h"
#include "data/tars/tar_index.h"

namespace dpipe {

struct TarDatasetOptions {
  // The field of .json members that contains the caption. Empty: "caption", or else "text".
  std::string caption_column;
  // The caption of samples without one: no caption member, no such field in it, or null there. If
  // it is not set, loading them is an error.
  std::optional<std::string> default_caption;
  DecodeLimits decode_limits;
  TarLimits tar_limits;  // per shard
  int64_t max_samples = 200'000'000;
};

class TarDataset final : public SampleSource {
 public:
  // `pattern`: see FindShards. Returns InvalidArgument if no image can be loaded, with the number
  // of files and the first damage. A sample with a missing caption or an unreadable file is in the
  // list, but loading it fails. Also returns the other errors of ReadTarIndex.
  static absl::StatusOr<std::unique_ptr<TarDataset>> Open(const std::string& pattern,
                                                          const TarDatasetOptions& options = {});

  int32_t size() const override { return static_cast<int32_t>(samples_.size()); }
  const std::string& name() const override { return pattern_; }
  std::string image_path(int32_t index) const override;
  bool has_condition(int32_t index) const override;
  // Covers the content of the index: names and sizes of members, not the text of captions.
  std::string fingerprint() const override { return fingerprint_; }
  std::vector<std::string> notes() const override { return notes_; }
  std::vector<std::string> findings() const override;
  absl::StatusOr<std::vector<std::string>> LoadCaptions(int32_t index) const override;
  absl::StatusOr<Image> LoadImage(int32_t index) const override;
  absl::StatusOr<ImageSize> LoadImageSize(int32_t index) const override;
  absl::StatusOr<std::string> LoadIdentity(int32_t index) const override;
  absl::StatusOr<Image> LoadCondition(int32_t index) const override;

  int num_shards() const { return static_cast<int>(shards_.size()); }
  // The number of keys that have members but no image.
  int64_t num_keys_without_image() const { return num_keys_without_image_; }
  // Adds a note about the place that the shards were found in.
  void AddNote(std::string note) { notes_.push_back(std::move(note)); }

 private:
  enum Part { kImage, kCaption, kJson, kCondition, kNumParts };
  struct Place {
    int64_t offset = 0;
    int64_t size = -1;  // -1 if there is none
    const char* extension = "";
  };
  struct Shard {
    std::string path;
    int64_t size = 0;
    std::string damage, rest;  // see TarIndex
  };
  // The meaning of a member by its name. The part is kNumParts if it has none.
  struct Field {
    std::string key;
    const char* extension = "";  // in lower case
    Part part = kNumParts;
  };
  struct Sample {
    int32_t shard = 0;
    int32_t archive = 0;
    std::string key;
    Place parts[kNumParts];  // without an image: represents the shard's damage
  };
  TarDataset(std::string pattern, const TarDatasetOptions& options);
  absl::Status AddShard(const std::string& path);
  // Adds members [begin, end), which belong to one archive, to the last shard.
  void AddArchive(const std::vector<TarMember>& members, size_t begin, size_t end);
  void AddMember(const TarMember& member, const Field& field, Sample* sample);
  void CollectNotes();
  void ComputeFingerprint();
  bool IsDamage(const Sample& sample) const { return sample.parts[kImage].size < 0; }
  static Field FieldAt(const std::string& name, size_t dot);  // key and extension around it
  static Field FieldOf(const std::string& name);              // by WebDataset's rule
  static Field FieldByLastDot(const std::string& name);
  absl::StatusOr<std::string> Read(const Sample& sample, Part part, int64_t max_bytes) const;
  // Returns OK if the shard contains the whole part.
  absl::Status CheckWhole(const Sample& sample, Part part) const;
  absl::StatusOr<Captions> ReadCaptions(const Sample& sample) const;
  // Returns "shard.tar: key.jpg", for messages.
  std::string Describe(const Sample& sample, Part part) const;

  std::string pattern_;
  TarDatasetOptions options_;
  CaptionColumn caption_column_;
  std::vector<Shard> shards_;
  std::vector<Sample> samples_;
  int64_t num_keys_without_image_ = 0;
  int64_t num_hidden_ = 0;  // members
  int64_t num_links_ = 0;
  CountedNames other_fields_;  // ignored names with several dots
  CountedNames replaced_;      // members that are not the last of their part
  std::vector<std::string> notes_;
  std::string fingerprint_;
  mutable SampleFindings findings_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_TARS_TAR_DATASET_H_
