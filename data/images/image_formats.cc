#include "data/images/image_formats.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "core/base/check.h"

namespace dpipe {

namespace {

constexpr absl::string_view kPreamble("Exif\0\0", 6);
constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShortType = 3;
constexpr size_t kEntryBytes = 12;

// Reads numbers in the byte order that the data states. Reads past the end return 0.
class TiffReader {
 public:
  TiffReader(absl::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  uint32_t Read(size_t at, int count) const {
    if (at > bytes_.size() || bytes_.size() - at < static_cast<size_t>(count)) return 0;
    uint32_t value = 0;
    for (int i = 0; i < count; ++i) {
      const size_t place = big_endian_ ? at + i : at + count - 1 - i;
      value = value << 8 | static_cast<uint8_t>(bytes_[place]);
    }
    return value;
  }

 private:
  absl::string_view bytes_;
  bool big_endian_;
};

}  // namespace

int ExifOrientation(absl::string_view exif) {
  if (absl::StartsWith(exif, kPreamble)) exif.remove_prefix(kPreamble.size());
  const bool big_endian = absl::StartsWith(exif, "MM");
  if (!big_endian && !absl::StartsWith(exif, "II")) return 1;
  const TiffReader reader(exif, big_endian);
  const size_t directory = reader.Read(4, 4);
  const uint32_t num_entries = reader.Read(directory, 2);
  for (uint32_t i = 0; i < num_entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (entry >= exif.size()) return 1;
    if (reader.Read(entry, 2) != kOrientationTag) continue;
    const uint32_t value = reader.Read(entry + 8, 2);
    const bool good = reader.Read(entry + 2, 2) == kShortType && value >= 1 && value <= 8;
    return good ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image ApplyOrientation(Image image, int orientation) {
  DPIPE_CHECK(orientation >= 1 && orientation <= 8) << "orientation " << orientation;
  if (orientation == 1) return image;
  const bool exchanged = orientation >= 5;
  Image upright(exchanged ? image.height : image.width, exchanged ? image.width : image.height);
  // For the upright image: true if its columns (or rows) are counted from the far end.
  const bool far_x = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool far_y = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  for (int y = 0; y < upright.height; ++y) {
    for (int x = 0; x < upright.width; ++x) {
      const int from_x = far_x ? upright.width - 1 - x : x;
      const int from_y = far_y ? upright.height - 1 - y : y;
      memcpy(upright.At(x, y), exchanged ? image.At(from_y, from_x) : image.At(from_x, from_y), 3);
    }
  }
  return upright;
}

}  // namespace dpipe
