#include "client/python/native/making.h"

#include "client/python/native/empty_on_cuda.h"
#include "client/python/native/reading.h"

/* libtorch's functions for AOTInductor, as in reading.c. */
typedef void* Handle;

static struct {
  int32_t (*get_data_ptr)(Handle, void**);
  int32_t (*delete_tensor_object)(Handle);
  int32_t (*empty_strided)(int64_t rank, const int64_t* sizes,
                           const int64_t* strides, int32_t dtype,
                           int32_t device_type, int32_t ordinal, Handle* out);
  int32_t (*device_type_cuda)(void);
} torch;

int kiln_making_learn(void) {
  if (kiln_reading_number_of(KILN_UINT8) < 0) {
    PyErr_SetString(PyExc_ImportError, "libtorch: no numbers of its types");
    return -1;
  }
  kiln_empty_on_cuda_learn(); /* without it the function below serves */
#define KILN_FIND(name) kiln_reading_find(#name, &torch.name)
  return KILN_FIND(get_data_ptr) && KILN_FIND(delete_tensor_object) &&
                 KILN_FIND(empty_strided) && KILN_FIND(device_type_cuda)
             ? 0
             : -1;
#undef KILN_FIND
}

void* kiln_making_new(int ordinal, KilnDType dtype, int64_t rank,
                      const int64_t* sizes, const int64_t* strides,
                      void** data) {
  const int32_t number = kiln_reading_number_of(dtype);
  Handle tensor = kiln_empty_on_cuda(ordinal, number, rank, sizes, strides);
  if (tensor == NULL &&
      torch.empty_strided(rank, sizes, strides, number,
                          torch.device_type_cuda(), ordinal, &tensor) != 0) {
    return NULL;
  }
  if (torch.get_data_ptr(tensor, data) == 0) return tensor;
  torch.delete_tensor_object(tensor);
  return NULL;
}

void kiln_making_free(void* tensor) { torch.delete_tensor_object(tensor); }
