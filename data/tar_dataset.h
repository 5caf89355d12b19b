// Tar shards of images with captions, in WebDataset's layout: members 000.jpg, 000.txt, 000.json
// with the same key, which is the name up to the first dot of its last part, are one sample.
// Members whose names begin with a dot, as "._000.jpg" that macOS adds, are left out.
//
//   image      .jpg .jpeg .png .webp
//   caption    .txt, or .caption, or .json: its caption column
//   condition  .cond.png or .conditioning.png
//
// Captions are those that CaptionText and CaptionColumn make of these. Other members are left
// alone. Samples are numbered shard by shard, in the order of their first members.
//
// Names with several dots: by WebDataset's rule, 22.05.png and 22.06.png are two fields of the key
// 22, and no images. So where no member of a key is one of the above, its members are read as in a
// folder, by the last dot: 22.05.png and 22.05.txt are the sample 22.05. Beside a 22.png or a
// 22.txt they are other fields (22.mask.png), which are not read but counted.
//
// Of two members of a key for the same part (an archive that was appended to, or 0.png and 0.jpg)
// the last one counts, as for tar. Keys of different archives that were joined are different.
//
// A damaged shard (cut off, or no tar at all) is read as far as it goes; see ReadTarIndex. A member
// that is cut, or else the damage itself, is a sample that cannot be loaded, which training counts
// as it counts images that cannot be decoded.
//
// The index is built when the data set is opened, from the headers alone: per sample some 150 bytes
// and its key.
#ifndef DPIPE_DATA_TAR_DATASET_H_
#define DPIPE_DATA_TAR_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "data/caption_column.h"
#include "data/counted_names.h"
#include "data/image_decode.h"
#include "data/sample_findings.h"
#include "data/sample_source.h"
#include "data/tar_index.h"

namespace dpipe {

struct TarDatasetOptions {
  // The field of .json members that has the caption; empty: "caption" or else "text".
  std::string caption_column;
  // Of samples that have none: no caption's member, or no such field in it, or null there. Without
  // it, loading them is an error.
  std::optional<std::string> default_caption;
  DecodeLimits decode_limits;
  TarLimits tar_limits;  // of each shard
  int64_t max_samples = 200'000'000;
};

class TarDataset final : public SampleSource {
 public:
  // `pattern`: see FindShards. InvalidArgument, naming the shard: no image that could be loaded. A
  // sample whose caption is missing or whose files cannot be read is in the list; loading it is an
  // error. Other errors of ReadTarIndex.
  static absl::StatusOr<std::unique_ptr<TarDataset>> Open(const std::string& pattern,
                                                          const TarDatasetOptions& options = {});

  int32_t size() const override { return static_cast<int32_t>(samples_.size()); }
  const std::string& name() const override { return pattern_; }
  std::string image_path(int32_t index) const override;
  bool has_condition(int32_t index) const override;
  // Of what the index has: names and sizes of members, not what captions say.
  std::string fingerprint() const override { return fingerprint_; }
  std::vector<std::string> notes() const override { return notes_; }
  std::vector<std::string> findings() const override;
  absl::StatusOr<std::vector<std::string>> LoadCaptions(int32_t index) const override;
  absl::StatusOr<Image> LoadImage(int32_t index) const override;
  absl::StatusOr<ImageSize> LoadImageSize(int32_t index) const override;
  absl::StatusOr<std::string> LoadIdentity(int32_t index) const override;
  absl::StatusOr<Image> LoadCondition(int32_t index) const override;

  int num_shards() const { return static_cast<int>(shards_.size()); }
  // Keys that have members, but no image.
  int64_t num_keys_without_image() const { return num_keys_without_image_; }
  // Adds a note about the place that the shards were found in.
  void AddNote(std::string note) { notes_.push_back(std::move(note)); }

 private:
  enum Part { kImage, kCaption, kJson, kCondition, kNumParts };
  struct Place {
    int64_t offset = 0;
    int64_t size = -1;  // -1: there is none
    const char* extension = "";
  };
  struct Shard {
    std::string path;
    int64_t size = 0;
    std::string damage, rest;  // see TarIndex
  };
  // What a member is by its name; part kNumParts: nothing.
  struct Field {
    std::string key;
    const char* extension = "";  // in lower case
    Part part = kNumParts;
  };
  struct Sample {
    int32_t shard = 0;
    int32_t archive = 0;
    std::string key;
    Place parts[kNumParts];  // without an image: the damage of the shard
  };
  TarDataset(std::string pattern, const TarDatasetOptions& options);
  absl::Status AddShard(const std::string& path);
  // Of the last shard; members [begin, end) are those of one archive.
  void AddArchive(const std::vector<TarMember>& members, size_t begin, size_t end);
  void AddMember(const TarMember& member, const Field& field, Sample* sample);
  void TakeNotes();
  void TakeFingerprint();
  bool IsDamage(const Sample& sample) const { return sample.parts[kImage].size < 0; }
  static Field FieldAt(const std::string& name, size_t dot);  // key and extension around it
  static Field FieldOf(const std::string& name);              // by WebDataset's rule
  static Field FieldByLastDot(const std::string& name);
  absl::StatusOr<std::string> Read(const Sample& sample, Part part, int64_t max_bytes) const;
  // OK if the part can be read from its shard.
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
  CountedNames other_fields_;  // names with several dots that are not read
  CountedNames replaced_;      // members that are not the last of their part
  std::vector<std::string> notes_;
  std::string fingerprint_;
  mutable SampleFindings findings_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_TAR_DATASET_H_
