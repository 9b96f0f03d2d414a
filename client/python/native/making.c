#include "client/python/native/making.h"

#include "client/python/native/empty_on_cuda.h"
#include "client/python/native/reading.h"
#include "client/python/native/refusal.h"

/* libtorch's functions for AOTInductor, as in reading.c. */
typedef void* Handle;

static struct {
  int32_t (*get_data_ptr)(Handle, void**);
  int32_t (*delete_tensor_object)(Handle);
  int32_t (*empty_strided)(int64_t rank, const int64_t* sizes,
                           const int64_t* strides, int32_t dtype,
                           int32_t device_type, int32_t ordinal, Handle* out);
  int32_t (*device_type_cuda)(void);
  int32_t (*get_dim)(Handle, int64_t*);
  int32_t (*get_dtype)(Handle, int32_t*);
  int32_t (*get_device_index)(Handle, int32_t*);
} torch;

/* What is thought of the way past these: its arguments are laid out as libtorch
 * had them when this was written, so its first tensor is looked at. */
enum { kNotThere, kUntried, kRight, kWrong };
static _Atomic int direct;

/* Whether a tensor is what was asked for. */
static int IsAsAsked(Handle tensor, int ordinal, int32_t dtype, int64_t rank) {
  int64_t found_rank = -1;
  int32_t found_dtype = -1, found_ordinal = -1;
  return torch.get_dim(tensor, &found_rank) == 0 && found_rank == rank &&
         torch.get_dtype(tensor, &found_dtype) == 0 && found_dtype == dtype &&
         torch.get_device_index(tensor, &found_ordinal) == 0 &&
         found_ordinal == ordinal;
}

/* A handle; NULL with words in refusal.h, or when this is not the way. */
static Handle MakeDirectly(int ordinal, int32_t dtype, int64_t rank,
                           const int64_t* sizes, const int64_t* strides) {
  Handle tensor = kiln_empty_on_cuda(ordinal, dtype, rank, sizes, strides);
  if (tensor == NULL || direct == kRight) return tensor;
  direct = IsAsAsked(tensor, ordinal, dtype, rank) ? kRight : kWrong;
  if (direct == kRight) return tensor;
  torch.delete_tensor_object(tensor);
  return NULL;
}

int kiln_making_learn(void) {
  if (kiln_reading_number_of(KILN_UINT8) < 0) {
    PyErr_SetString(PyExc_ImportError, "libtorch: no numbers of its types");
    return -1;
  }
  if (direct == kNotThere && kiln_empty_on_cuda_learn()) direct = kUntried;
#define KILN_FIND(name) kiln_reading_find(#name, &torch.name)
  return KILN_FIND(get_data_ptr) && KILN_FIND(delete_tensor_object) &&
                 KILN_FIND(empty_strided) && KILN_FIND(device_type_cuda) &&
                 KILN_FIND(get_dim) && KILN_FIND(get_dtype) &&
                 KILN_FIND(get_device_index)
             ? 0
             : -1;
#undef KILN_FIND
}

void* kiln_making_new(int ordinal, KilnDType dtype, int64_t rank,
                      const int64_t* sizes, const int64_t* strides,
                      void** data) {
  const int32_t number = kiln_reading_number_of(dtype);
  Handle tensor = NULL;
  if (direct == kRight || direct == kUntried) {
    tensor = MakeDirectly(ordinal, number, rank, sizes, strides);
    if (tensor == NULL && direct != kWrong) return NULL;
  }
  if (tensor == NULL &&
      torch.empty_strided(rank, sizes, strides, number,
                          torch.device_type_cuda(), ordinal, &tensor) != 0) {
    kiln_refusal_note_raised();
    return NULL;
  }
  if (torch.get_data_ptr(tensor, data) == 0) return tensor;
  torch.delete_tensor_object(tensor);
  return NULL;
}

void kiln_making_free(void* tensor) { torch.delete_tensor_object(tensor); }
